// Package kubeapi asks one Kubernetes API server, by one identity: what is there of single
// objects, what it would make of an object, the writes themselves, each of which the server
// compares with the version that was read, and lists and watches of metadata. It decides
// nothing, and keeps only which kinds the server has. Packages kubeobject and kubewatch call
// it.
package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lehr.dev/plugins/kubernetes/clusterfile"
)

const (
	// Manager is the field manager by which all is written.
	Manager = "lehr"
	// requestTimeout bounds each request on both sides: the server ends it, too.
	requestTimeout = 8 * time.Second
	// LongestEffect of a write whose plugin was killed.
	LongestEffect = requestTimeout + 2*time.Second
	// identityAge is how long the cluster counts as the one that it was. A watch that lives
	// confirms it each minute.
	identityAge = 2 * time.Minute
)

// Server is an API server, asked by one identity.
type Server struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	plain    rest.Interface
	kinds    kinds

	mutex sync.Mutex
	// uid of the namespace kube-system as of read.
	uid  string
	read time.Time
}

// Connect makes a Server; it asks nothing yet.
func Connect(cluster clusterfile.Cluster) (*Server, error) {
	config, err := configOf(cluster)
	if err != nil {
		return nil, err
	}
	transport := &renewing{load: func() (http.RoundTripper, []string, error) { return transportOf(cluster) }}
	if err := transport.reload(); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	// Watches last, and lists have limits of their own.
	followed, err := metadata.NewForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		return nil, err
	}
	server := &Server{objects: objects, metadata: followed, plain: discovered.RESTClient()}
	server.kinds.list = server.listKinds
	return server, nil
}

// configOf is how a cluster is asked, as its files are now.
func configOf(cluster clusterfile.Cluster) (*rest.Config, error) {
	config, err := readConfig(cluster)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "lehr-kubernetes"
	config.Timeout = requestTimeout
	// The server says when it is too busy, and is obeyed; no pause of our own beside that.
	config.QPS = -1
	if identity := cluster.Impersonate; identity != nil {
		config.Impersonate = rest.ImpersonationConfig{UserName: identity.User, Groups: identity.Groups}
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return obeying{next} })
	return config, nil
}

func readConfig(cluster clusterfile.Cluster) (*rest.Config, error) {
	if cluster.InCluster {
		return rest.InClusterConfig()
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: cluster.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: cluster.Context},
	).ClientConfig()
}

// UID identifies the cluster, whatever names it has: that of its namespace kube-system.
func (s *Server) UID(ctx context.Context) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.uid != "" && time.Since(s.read) < identityAge {
		return s.uid, nil
	}
	namespace, err := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the namespace kube-system, whose UID names the cluster (the identity needs get on it): %w", err)
	}
	s.uid, s.read = string(namespace.GetUID()), time.Now()
	return s.uid, nil
}

// ConfirmUID notes that a watch shows the cluster's UID; empty: it has ended, and the next
// question about the UID reads it.
func (s *Server) ConfirmUID(uid string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.uid, s.read = uid, time.Now()
}

// Version returns what the server says it is, such as v1.36.3.
func (s *Server) Version(ctx context.Context) (string, error) {
	var info version.Info
	text, err := s.plain.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}

// listKinds asks which kinds a group has in a version; nil: there is no such version.
func (s *Server) listKinds(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	path := "/apis/" + version.String()
	if version.Group == "" {
		path = "/api/" + version.Version
	}
	var list metav1.APIResourceList
	err := s.plain.Get().AbsPath(path).Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return list.APIResources, err
}

// VersionsWith returns the versions of a group in which the server has a kind now, as apiVersions. It
// is for a kind that the server does not have in the version that intent names: a minor has left it,
// or does not have it yet.
func (s *Server) VersionsWith(ctx context.Context, kind schema.GroupKind) (versions []string, err error) {
	if kind.Group == "" {
		return nil, nil // The core has one version.
	}
	var group metav1.APIGroup
	err = s.plain.Get().AbsPath("/apis/" + kind.Group).Do(ctx).Into(&group)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking which versions the group %s has: %w", kind.Group, err)
	}
	for _, one := range group.Versions {
		_, ok, err := s.kinds.find(ctx, kind.WithVersion(one.Version))
		if err != nil {
			return nil, err
		}
		if ok {
			versions = append(versions, one.GroupVersion)
		}
	}
	return versions, nil
}
