package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is what a Kubelet says of the containers of an image. The zero value is none: a pod
// that goes on runs and is ready, one of a Job ends well.
type Fault struct {
	// NoImage is what the registry said; the image cannot be pulled.
	NoImage string
	// ExitCode of each run; not 0: the container ends, again and again.
	ExitCode int
	// Unready: the container runs, and its readiness probe does not pass.
	Unready bool
	// Held: the kubelet does nothing, as one that hangs.
	Held bool
	// Log is what a container wrote.
	Log string
}

// Kubelet is one node's, and runs nothing. It is made faulty on purpose, by images.
type Kubelet struct {
	plane *Plane
	node  string

	mutex  sync.Mutex
	faults map[string]Fault
	// said is the last status that was written of each pod, by its UID.
	said map[string]string
	// images of the pods' first containers, by namespace/name.
	images map[string]string
}

// beat is how often the kubelet looks at its pods.
const beat = 50 * time.Millisecond

// SetFault has containers of an image do otherwise from now on.
func (k *Kubelet) SetFault(image string, fault Fault) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.faults[image] = fault
}

func (k *Kubelet) faultOf(image string) Fault {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.faults[image]
}

// startKubelet registers a node, and serves it until the test ends.
func startKubelet(p *Plane, node string) *Kubelet {
	p.Helper()
	k := &Kubelet{plane: p, node: node, faults: map[string]Fault{}, said: map[string]string{}, images: map[string]string{}}
	logs := httptest.NewTLSServer(http.HandlerFunc(k.serveLog))
	p.Cleanup(logs.Close)
	_, port, err := net.SplitHostPort(logs.Listener.Addr().String())
	if err != nil {
		p.Fatal(err)
	}
	made := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/hostname":%[1]q}}}`, node)
	p.Wait("the node", func() error {
		_, err := p.Ask(http.MethodPatch, "/api/v1/nodes/"+node+"?fieldManager=kubelet&force=true", "application/apply-patch+yaml", made)
		return err
	})
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}},
"capacity":{"cpu":"4","memory":"8Gi","pods":"500"},"allocatable":{"cpu":"4","memory":"8Gi","pods":"500"},
"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q,"lastTransitionTime":%[2]q}]}}`, port, now)
	if _, err := p.Ask(http.MethodPatch, "/api/v1/nodes/"+node+"/status", "application/merge-patch+json", []byte(status)); err != nil {
		p.Fatal(err)
	}
	ended, ctx := make(chan struct{}), p.Context()
	go func() {
		defer close(ended)
		k.run(ctx)
	}()
	p.Cleanup(func() { <-ended })
	return k
}

func (k *Kubelet) run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	renewedAt := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if time.Since(renewedAt) > 5*time.Second {
			k.renewLease()
			renewedAt = time.Now()
		}
		k.lookAtPods()
	}
}

// renewLease keeps the node from being taken for one that is gone.
func (k *Kubelet) renewLease() {
	lease := fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"namespace":"kube-node-lease"},"spec":{"holderIdentity":%[1]q,"leaseDurationSeconds":40,"renewTime":%q}}`,
		k.node, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	_, _ = k.plane.Ask(http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+k.node+"?fieldManager=kubelet&force=true", "application/apply-patch+yaml", lease)
}

// pod is what the kubelet reads of one.
type pod struct {
	Metadata struct {
		Name, Namespace, UID string
		DeletionTimestamp    string
	}
	Spec struct {
		RestartPolicy string
		Containers    []struct{ Name, Image string }
	}
	Status struct{ Phase string }
}

// lookAtPods writes what becomes of each pod. An API server that is away is asked again at
// the next beat.
func (k *Kubelet) lookAtPods() {
	answer, err := k.plane.Ask(http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+k.node, "", nil)
	var list struct{ Items []pod }
	if err != nil || json.Unmarshal(answer, &list) != nil {
		return
	}
	for _, one := range list.Items {
		path := "/api/v1/namespaces/" + one.Metadata.Namespace + "/pods/" + one.Metadata.Name
		fault := k.faultOf(one.Spec.Containers[0].Image)
		if fault.Held {
			continue
		}
		if one.Metadata.DeletionTimestamp != "" {
			_, _ = k.plane.Ask(http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil)
			continue
		}
		if one.Status.Phase == "Succeeded" || one.Status.Phase == "Failed" {
			continue
		}
		k.mutex.Lock()
		said := k.said[one.Metadata.UID]
		k.images[one.Metadata.Namespace+"/"+one.Metadata.Name] = one.Spec.Containers[0].Image
		k.mutex.Unlock()
		status := statusOf(one, fault)
		if said == status {
			continue
		}
		// The kind of patch that kubelets use: other conditions, as the scheduler's, stay.
		if _, err := k.plane.Ask(http.MethodPatch, path+"/status", "application/strategic-merge-patch+json", []byte(status)); err == nil {
			k.mutex.Lock()
			k.said[one.Metadata.UID] = status
			k.mutex.Unlock()
		}
	}
}

// statusOf a pod under a fault, as a patch.
func statusOf(one pod, fault Fault) string {
	phase, ready, state, last, restarts := "Running", "True", `{"running":{}}`, `{}`, 0
	terminated := func(code int) string {
		reason := "Completed"
		if code != 0 {
			reason = "Error"
		}
		return fmt.Sprintf(`{"terminated":{"exitCode":%d,"reason":%q}}`, code, reason)
	}
	switch {
	case fault.NoImage != "":
		phase, ready = "Pending", "False"
		state = `{"waiting":{"reason":"ImagePullBackOff","message":` + strconv.Quote(fault.NoImage) + `}}`
	case one.Spec.RestartPolicy == "Never":
		ready, phase, state = "False", "Succeeded", terminated(fault.ExitCode)
		if fault.ExitCode != 0 {
			phase = "Failed"
		}
	case fault.ExitCode != 0:
		ready, restarts, last = "False", 3, terminated(fault.ExitCode)
		state = `{"waiting":{"reason":"CrashLoopBackOff","message":"back-off restarting failed container"}}`
	case one.Spec.RestartPolicy == "OnFailure":
		ready, phase, state = "False", "Succeeded", terminated(0)
	case fault.Unready:
		ready = "False"
	}
	var containers []string
	for _, container := range one.Spec.Containers {
		containers = append(containers, fmt.Sprintf(`{"name":%q,"image":%q,"imageID":"","ready":%t,"restartCount":%d,"state":%s,"lastState":%s}`,
			container.Name, container.Image, ready == "True", restarts, state, last))
	}
	return fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[%s],"conditions":[{"type":"Ready","status":%q},{"type":"ContainersReady","status":%[3]q},{"type":"Initialized","status":"True"}],"podIP":%[4]q,"podIPs":[{"ip":%[4]q}]}}`,
		phase, strings.Join(containers, ","), ready, addressOf(one))
}

// addressOf a pod, without which it is behind no Service. Nothing answers there.
func addressOf(one pod) string {
	sum := fnv.New32a()
	sum.Write([]byte(one.Metadata.UID))
	number := sum.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 1+(number>>16)%250, (number>>8)%250, 1+number%250)
}

// serveLog answers what the API server asks a kubelet for: /containerLogs/NAMESPACE/POD/CONTAINER.
func (k *Kubelet) serveLog(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/containerLogs/"), "/")
	if len(parts) != 3 {
		http.NotFound(w, r)
		return
	}
	k.mutex.Lock()
	fault := k.faults[k.images[parts[0]+"/"+parts[1]]]
	k.mutex.Unlock()
	lines := strings.SplitAfter(strings.TrimSuffix(fault.Log, "\n"), "\n")
	if tail, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil && tail < len(lines) {
		lines = lines[len(lines)-tail:]
	}
	_, _ = w.Write([]byte(strings.Join(lines, "")))
}
