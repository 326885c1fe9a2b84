package pgschema

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"lehr.dev/plugins/sqlschema/database"
)

const (
	// idlePerDatabase bounds the connections that wait for the next look.
	idlePerDatabase = 4
	// idleFor is how long they do: a batch of assets shares them, a quiet
	// database has none.
	idleFor = 10 * time.Second
)

// idle holds connections between two looks.
type idle struct {
	mutex sync.Mutex
	free  map[string][]waiting
}

type waiting struct {
	conn *pgx.Conn
	end  *time.Timer
}

func idleKey(request database.Request) string { return digest(request.URL + "\x00" + request.Password) }

// take returns a connection that waits, or nil.
func (i *idle) take(key string) *pgx.Conn {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for len(i.free[key]) > 0 {
		last := len(i.free[key]) - 1
		one := i.free[key][last]
		i.free[key] = i.free[key][:last]
		if one.end.Stop() && !one.conn.IsClosed() {
			return one.conn
		}
	}
	delete(i.free, key)
	return nil
}

// give lets a connection wait, or closes it.
func (i *idle) give(key string, conn *pgx.Conn) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if len(i.free[key]) >= idlePerDatabase {
		closeConn(context.Background(), conn)
		return
	}
	i.free[key] = append(i.free[key], waiting{conn, time.AfterFunc(idleFor, func() { i.expire(key, conn) })})
}

func (i *idle) expire(key string, conn *pgx.Conn) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for place, one := range i.free[key] {
		if one.conn == conn {
			i.free[key] = append(i.free[key][:place:place], i.free[key][place+1:]...)
			break
		}
	}
	if len(i.free[key]) == 0 {
		delete(i.free, key)
	}
	closeConn(context.Background(), conn)
}
