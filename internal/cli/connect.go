package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// actor is who runs the program.
func (s *session) actor() intent.Actor {
	name := s.Getenv("USER")
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	return intent.Actor{Name: name, Origin: "cli"}
}

// databaseMeant reports whether a database is named beside whatever server there
// is: who means that does not act on what another server has.
func (s *session) databaseMeant() bool {
	return s.database != "" && !s.serverGiven && (s.databaseGiven || !s.storeGiven)
}

// connect returns a client of the server; of the database, if one is named.
func (s *session) connect(ctx context.Context) (*client.Client, error) {
	c, err := s.dial()
	if !s.databaseMeant() || s.local.Client != nil {
		return c, err
	}
	toDo := "name one of its servers with --server URL, or leave the database out to ask the server that runs here"
	if len(s.servers) > 0 {
		toDo = "name one of its servers with --server URL; LEHR_SERVER names one of another store"
	}
	wanted := s.local.StoreName(s.database)
	if missing, ok := errors.AsType[*fault.Error](err); ok {
		return c, fault.New(missing.Kind, "this takes a server of %s: %s", wanted, missing.Message).WithHint("%s", toDo)
	}
	if err != nil {
		return c, err
	}
	serverInfo, err := c.Server.GetServer(ctx, serverRequest)
	if err == nil && serverInfo.Store != wanted {
		err = fault.New(fault.Conflict, "this takes a server of %s, and the one at %s has another store, %s", wanted, c.URL, serverInfo.Store).WithHint("%s", toDo)
	}
	return c, err
}

// dial returns a client of the server that is named, or runs here.
func (s *session) dial() (*client.Client, error) {
	if s.local.Client != nil {
		return s.local.Client, nil
	}
	if len(s.servers) == 0 {
		return client.Discover(s.store, s.actor())
	}
	servers := make([]string, len(s.servers))
	for i, named := range s.servers {
		var err error
		if servers[i], err = client.ParseServer(named); err != nil {
			return nil, err
		}
	}
	// A token of one replica is known to all.
	secret, err := s.secret(servers[0])
	if err != nil {
		return nil, err
	}
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	return client.DialWithRoots(servers[0], secret, s.actor(), roots, servers[1:]...), nil
}

// connectOrOpen returns a client of the server; or of the store itself, file or
// database, when no server answers or a flag names it.
func (s *session) connectOrOpen(ctx context.Context) (*client.Client, error) {
	if s.local.Client != nil {
		return s.local.Client, nil
	}
	if s.databaseGiven || s.storeGiven {
		return s.open(ctx)
	}
	return s.answeringOrOpen(ctx)
}

// connectOrRead returns a client of the server; or of the database, if one is
// named, when no server of it answers.
func (s *session) connectOrRead(ctx context.Context) (*client.Client, error) {
	if s.local.Client != nil || s.database == "" {
		return s.dial()
	}
	return s.answeringOrOpen(ctx)
}

func (s *session) answeringOrOpen(ctx context.Context) (*client.Client, error) {
	c, err := s.dial()
	var serverInfo *apipb.GetServerResponse
	if err == nil {
		serverInfo, err = c.Server.GetServer(ctx, serverRequest)
	}
	switch {
	case err == nil && s.databaseMeant() && serverInfo.Store != s.local.StoreName(s.database):
		fmt.Fprintf(s.Err, "The server at %s has another store, %s; it is not asked.\n", plain(c.URL), plain(serverInfo.Store))
	case err == nil:
		return c, nil
	case len(s.servers) > 0 && s.database == "", !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable):
		return c, err
	}
	return s.openInstead(ctx, c, err)
}

// openInstead returns a client of the store itself, for the server, if one was found,
// cannot be asked.
func (s *session) openInstead(ctx context.Context, found *client.Client, err error) (*client.Client, error) {
	opened, openErr := s.open(ctx)
	name, _ := s.storeMeant()
	if silent, ok := errors.AsType[*fault.Error](err); ok && found != nil && fault.Is(openErr, fault.NotFound) {
		// What the server has is elsewhere, and it told why it is not to be had.
		return nil, fault.New(fault.Unavailable, "%s; and there is no store here to work on without it: %s", silent.Message, s.local.StoreName(name)).
			WithHint("mend that, or name the store that it serves: --database URL, or --store FILE")
	}
	return opened, openErr
}

// stopPatience is how long a server may take to answer a stop, or to say which store it
// has, before the store itself is worked on.
const stopPatience = 10 * time.Second

// setStop asks the server that is found, which takes a stop although its store cannot
// answer (S18); of the store itself only where no server takes it, or a flag names it.
func (s *session) setStop(ctx context.Context, request *apipb.SetStopRequest) (*apipb.SetStopResponse, error) {
	take := func(c *client.Client, err error) (*apipb.SetStopResponse, error) {
		if err != nil {
			return nil, err
		}
		return c.Brakes.SetStop(ctx, request)
	}
	if s.local.Client != nil || s.databaseGiven || s.storeGiven {
		return take(s.connectOrOpen(ctx))
	}
	found, err := s.dial()
	if err == nil && s.databaseMeant() {
		soon, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		// One whose store cannot be asked now may have it.
		if about, err := found.Server.GetServer(soon, serverRequest); err == nil && about.Store != s.local.StoreName(s.database) {
			return take(s.answeringOrOpen(ctx))
		}
	}
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		var response *apipb.SetStopResponse
		if response, err = found.Brakes.SetStop(soon, request); err == nil {
			return response, nil
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fault.New(fault.Unavailable, "the server at %s does not answer within %s", plain(found.URL), stopPatience)
		}
		if !fault.Is(err, fault.Unavailable) {
			return nil, err
		}
	} else if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
		return nil, err
	}
	if len(s.servers) > 0 && s.database == "" {
		return nil, err
	}
	return take(s.openInstead(ctx, found, err))
}

// storeMeant is the store to work on without a server, and whether a flag names it.
func (s *session) storeMeant() (name string, isNamed bool) {
	if s.database != "" && (s.databaseGiven || !s.storeGiven) {
		return s.database, s.databaseGiven
	}
	return s.store, s.storeGiven
}

// open returns a client of the store itself, and says so unless that is what
// was asked for.
func (s *session) open(ctx context.Context) (*client.Client, error) {
	name, isNamed := s.storeMeant()
	opened, closer, err := s.local.Open(ctx, name, s.actor())
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, closer)
	storeName := plain(s.local.StoreName(name))
	if !isNamed {
		fmt.Fprintf(s.Err, "No server answers; working on its store %s directly.\n", storeName)
	} else if rendezvous, err := access.ReadRendezvous(s.store); err == nil && s.databaseGiven {
		fmt.Fprintf(s.Err, "Working on the database %s directly; the server at %s is not asked.\n", storeName, plain(rendezvous.URL))
	}
	return opened, nil
}
