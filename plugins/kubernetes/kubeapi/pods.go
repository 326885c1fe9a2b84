package kubeapi

import (
	"context"
	"io"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxLog bytes of a container's log are read, of its last lines.
	maxLog = 4 << 10
	// maxEvents of an object are read.
	maxEvents = 20
)

// PodKind is that of pods.
var PodKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// Pods returns at most so many pods of a namespace that labels select.
func (s *Server) Pods(ctx context.Context, namespace, selector string, most int64) ([]unstructured.Unstructured, error) {
	pods := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: most})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// LastLines returns what a container wrote at last, at most so many lines and 4 KiB; of its
// run before the present one, where previous says so.
func (s *Server) LastLines(ctx context.Context, namespace, pod, container string, lines int, previous bool) (string, error) {
	log, err := s.plain.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "log").
		Param("container", container).Param("tailLines", strconv.Itoa(lines)).
		Param("limitBytes", strconv.Itoa(maxLog)).Param("previous", strconv.FormatBool(previous)).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, maxLog))
	return strings.ToValidUTF8(string(text), "?"), err
}

// LastWarning returns the message of the newest warning that the cluster noted of an object;
// empty: there is none.
func (s *Server) LastWarning(ctx context.Context, namespace string, uid types.UID) (string, error) {
	events := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(namespace)
	selector := fields.Set{"involvedObject.uid": string(uid), "type": "Warning"}.String()
	list, err := events.List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: maxEvents})
	if err != nil {
		return "", err
	}
	message, newest := "", ""
	for _, event := range list.Items {
		at, _, _ := unstructured.NestedString(event.Object, "lastTimestamp")
		if at == "" {
			at, _, _ = unstructured.NestedString(event.Object, "eventTime")
		}
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		words, _, _ := unstructured.NestedString(event.Object, "message")
		if at >= newest {
			message, newest = reason+": "+words, at
		}
	}
	return message, nil
}
