package kubeapi

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"lehr.dev/plugins/kubernetes/clusterfile"
)

// credentialsAge is how often it is seen whether the files of a cluster's credentials have
// changed. A server that refuses them has them looked at at once.
const credentialsAge = 2 * time.Second

// renewing sends requests with the credentials and the authorities that the files have now, so
// that certificates and tokens may be rotated while the plugin runs. What a request has begun
// goes on with those of before. The server's address stays that of the start.
type renewing struct {
	// load reads all files, and names them.
	load func() (transport http.RoundTripper, files []string, err error)

	mutex     sync.Mutex
	transport http.RoundTripper
	stamps    map[string]stamp
	lookedAt  time.Time
}

// stamp tells whether a file is the one that was read.
type stamp struct {
	size    int64
	written time.Time
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime()}
}

func (r *renewing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.current(credentialsAge).RoundTrip(request)
	if err != nil && request.Context().Err() == nil || err == nil && response.StatusCode == http.StatusUnauthorized {
		r.current(0) // The next request has what is there by then.
	}
	return response, err
}

// current is the transport; that the files were the same is at most so old.
func (r *renewing) current(age time.Duration) http.RoundTripper {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := time.Now()
	if now.Sub(r.lookedAt) < age {
		return r.transport
	}
	r.lookedAt = now
	for file, read := range r.stamps {
		if stampOf(file) == read {
			continue
		}
		// Files that are being written make no transport: the one of before stays until they do.
		_ = r.reload()
		break
	}
	return r.transport
}

func (r *renewing) reload() error {
	startedAt := time.Now()
	transport, files, err := r.load()
	if err != nil {
		return err
	}
	r.transport, r.stamps = transport, map[string]stamp{}
	for _, file := range files {
		if read := stampOf(file); read.written.Before(startedAt) {
			r.stamps[file] = read
		} else { // It was written while it was read: it is read again.
			r.stamps[file] = stamp{}
		}
	}
	return nil
}

// transportOf reads the files of a cluster's credentials. Their contents go into the transport,
// for client-go would keep a client's certificate for minutes.
func transportOf(cluster clusterfile.Cluster) (http.RoundTripper, []string, error) {
	config, err := configOf(cluster)
	if err != nil {
		return nil, nil, err
	}
	var files []string
	for _, file := range []string{cluster.Kubeconfig, config.CAFile, config.CertFile, config.KeyFile, config.BearerTokenFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, nil, fmt.Errorf("reading the certificates: %w", err)
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	transport, err := rest.TransportFor(config)
	return transport, files, err
}
