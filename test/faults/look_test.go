package faults

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What is here reads production itself: processes, Caddy's admin endpoint,
// sockets and the database. Nothing asks Lehr.

// task is a living process of a job.
type task struct {
	process
	job     string
	number  int
	version string
	push    string
}

// look lists the living processes of the service's jobs, by job and number.
func (s *service) look() []task {
	var found []task
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		environment, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environment, []byte("LEHR_JOB="+s.identity+"/")) {
			continue
		}
		folder := filepath.Dir(path)
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // It is ending.
		}
		t := task{job: variable(environment, "LEHR_JOB"), version: variable(environment, "LEHR_VERSION"), push: variable(environment, "LEHR_PUSH")}
		t.number, _ = strconv.Atoi(variable(environment, "LEHR_TASK"))
		t.pid, _ = strconv.Atoi(filepath.Base(folder))
		t.arguments = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b task) int { return strings.Compare(a.job, b.job)*1000 + a.number - b.number })
	return found
}

func variable(environment []byte, name string) string {
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := strings.CutPrefix(string(entry), name+"="); ok {
			return value
		}
	}
	return ""
}

// of keeps the tasks of one job.
func of(tasks []task, job string) []task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return t.job != job })
}

// pool is a balancer as its Caddy says.
type pool struct {
	// weights by address; id is who wrote it.
	weights map[string]int
	id      string
}

// admin is patient; browsers are people's.
var (
	admin   = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	browser = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
)

// caddy asks an admin endpoint.
func caddy(method string, port int, path, body string) ([]byte, error) {
	request, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := admin.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the admin endpoint %d answered %s: %s", port, response.Status, content)
	}
	return content, err
}

// pool reads the service's balancer in one Caddy; a Caddy without it has an
// empty one.
func (s *service) pool(adminPort int) (pool, error) {
	found := pool{weights: map[string]int{}}
	content, err := caddy(http.MethodGet, adminPort, "/config/", "")
	if err != nil {
		return found, err
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]json.RawMessage `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(content, &config); err != nil {
		return found, err
	}
	server := config.Apps.HTTP.Servers[s.identity]
	if server == nil {
		return found, nil
	}
	var part map[string]any
	if err := json.Unmarshal(server, &part); err != nil {
		return found, err
	}
	found.id, _ = part["@id"].(string)
	found.collect(part)
	return found, nil
}

// collect finds the reverse proxies in a part of the configuration.
func (p pool) collect(part any) {
	switch part := part.(type) {
	case []any:
		for _, each := range part {
			p.collect(each)
		}
	case map[string]any:
		if part["handler"] != "reverse_proxy" {
			for _, each := range part {
				p.collect(each)
			}
			return
		}
		balancing, _ := part["load_balancing"].(map[string]any)
		policy, _ := balancing["selection_policy"].(map[string]any)
		weights, _ := policy["weights"].([]any)
		upstreams, _ := part["upstreams"].([]any)
		for i, upstream := range upstreams {
			address, _ := upstream.(map[string]any)["dial"].(string)
			p.weights[address] = 1
			if i < len(weights) {
				weight, _ := weights[i].(float64)
				p.weights[address] = int(weight)
			}
		}
	}
}

// share is what the balancer before all clusters gives one.
func (p pool) share(c cluster) int { return p.weights[fmt.Sprintf("127.0.0.1:%d", c.balancer())] }

// answer is what a task says on its socket.
type answer struct {
	Version string            `json:"version"`
	PID     int               `json:"pid"`
	Lines   []json.RawMessage `json:"lines"`
}

// search searches the play on one port.
func search(port int) (found answer, err error) {
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/search?q=to+be", port), nil)
	if err != nil {
		return found, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := browser.Do(request)
	if err != nil {
		return found, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		return found, fmt.Errorf("port %d answered %s: %.200s", port, response.Status, content)
	}
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err == nil && len(found.Lines) == 0 {
		err = fmt.Errorf("port %d answered without lines", port)
	}
	return found, err
}

// query asks the database for one value, without waiting for any writer.
func (s *service) query(statement string) (value string, err error) {
	db, err := sql.Open("sqlite", "file:"+s.database()+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRow(statement).Scan(&value)
	return value, err
}

// column reports whether the table has what v3 needs.
func (s *service) column() (bool, error) {
	count, err := s.query("SELECT count(*) FROM pragma_table_info('searches') WHERE name = 'cluster'")
	return count == "1", err
}

// serves says what is missing until production is as the manifest says: each
// task runs once and answers as its version, and each balancer has its pool.
func (s *service) serves() string {
	m, tasks := s.manifest, s.look()
	global, err := s.pool(s.port + 1)
	if err != nil {
		return err.Error()
	}
	shared := 0
	for _, c := range m.clusters {
		if c.turndown {
			continue
		}
		shared++
		if share := global.share(c); share != c.replicas {
			return fmt.Sprintf("the global balancer gives cluster %s %d shares, not %d", c.name, share, c.replicas)
		}
		if missing := s.clusterServes(c, m.version, of(tasks, s.job(c.name, "frontend"))); missing != "" {
			return missing
		}
	}
	if len(global.weights) != shared {
		return fmt.Sprintf("the global balancer has %v", global.weights)
	}
	if there, err := s.column(); err != nil || there != m.column {
		return fmt.Sprintf("the column is there: %t, not %t %s", there, m.column, text(err))
	}
	_, err = search(s.port)
	return text(err)
}

func (s *service) clusterServes(c cluster, version string, tasks []task) string {
	own, err := s.pool(c.admin())
	if err != nil {
		return err.Error()
	}
	if len(own.weights) != c.replicas || len(tasks) != c.replicas {
		return fmt.Sprintf("cluster %s has %d upstreams and %d tasks, not %d", c.name, len(own.weights), len(tasks), c.replicas)
	}
	for i := range c.replicas {
		got, err := search(c.port + i)
		if err != nil || got.Version != version || got.PID != tasks[i].pid {
			return fmt.Sprintf("cluster %s task %d answers as %s, process %d, not as %s, process %d %s", c.name, i, got.Version, got.PID, version, tasks[i].pid, text(err))
		}
	}
	return ""
}
