package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Troubles of pods, the worst first.
const (
	crashes = iota
	noImage
	unschedulable
	failed
	waits
	notReady
	none
)

// Container is one of a pod, and what is known of it.
type Container struct {
	Pod, Name string
	// Words say what is wrong with it, or how it ended.
	Words string
	// Ended: it has run, so what it wrote says more. Of its run before, where Previous says so.
	Ended, Previous bool
}

// Worst is the container that fares worst; ok is false where none has trouble. Where the pod
// as a whole has it, it has no name. Pods with the images of the workload come before others:
// those are left of what it was before, and go.
func Worst(object *unstructured.Unstructured, pods []unstructured.Unstructured) (container Container, ok bool) {
	images := imagesOf(object)
	worst, isPresent := none, false
	for pod := range each(pods) {
		trouble, found := podTrouble(pod)
		present := hasImages(pod, images)
		if trouble < none && (worst == none || present && !isPresent || present == isPresent && trouble < worst) {
			worst, container, isPresent = trouble, found, present
		}
	}
	return container, worst < none
}

// imagesOf a workload's containers by their names.
func imagesOf(object *unstructured.Unstructured) map[string]string {
	images := map[string]string{}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	for _, one := range containers {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		images[name], _ = fields["image"].(string)
	}
	return images
}

func hasImages(pod *corev1.Pod, images map[string]string) bool {
	for _, container := range pod.Spec.Containers {
		if image, ok := images[container.Name]; ok && image != container.Image {
			return false
		}
	}
	return true
}

// LastEnded is the first container of the pod that ended last, of a Job.
func LastEnded(pods []unstructured.Unstructured) (container Container, ok bool) {
	var last time.Time
	for pod := range each(pods) {
		for _, status := range pod.Status.ContainerStatuses {
			ended := status.State.Terminated
			if ended == nil || ok && ended.FinishedAt.Time.Before(last) {
				continue
			}
			last, ok = ended.FinishedAt.Time, true
			container = Container{Pod: pod.Name, Name: status.Name, Words: fmt.Sprintf("ended with exit code %d (%s)", ended.ExitCode, ended.Reason), Ended: true}
			break
		}
	}
	return container, ok
}

func each(pods []unstructured.Unstructured) func(yield func(*corev1.Pod) bool) {
	return func(yield func(*corev1.Pod) bool) {
		for _, one := range pods {
			var pod corev1.Pod
			if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &pod) == nil && !yield(&pod) {
				return
			}
		}
	}
}

func podTrouble(pod *corev1.Pod) (trouble int, found Container) {
	trouble = none
	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if t, c := containerTrouble(container); t < trouble {
			trouble, found = t, c
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable && unschedulable < trouble {
			trouble, found = unschedulable, Container{Words: "Unschedulable: " + condition.Message}
		}
	}
	if pod.Status.Phase == corev1.PodFailed && failed < trouble {
		trouble, found = failed, Container{Words: fmt.Sprintf("failed: %s %s", pod.Status.Reason, pod.Status.Message)}
	}
	found.Pod = pod.Name
	return trouble, found
}

func containerTrouble(container corev1.ContainerStatus) (trouble int, found Container) {
	waiting, last := container.State.Waiting, container.LastTerminationState.Terminated
	found.Name = container.Name
	switch {
	case waiting != nil && waiting.Reason == "CrashLoopBackOff" && last != nil:
		trouble, found.Ended, found.Previous = crashes, true, true
		found.Words = fmt.Sprintf("CrashLoopBackOff, it ended with exit code %d (%s), %d restarts", last.ExitCode, last.Reason, container.RestartCount)
	case waiting != nil && waiting.Reason == "CrashLoopBackOff":
		trouble, found.Words = crashes, "CrashLoopBackOff, "+waiting.Message
	case waiting != nil && (waiting.Reason == "ImagePullBackOff" || waiting.Reason == "ErrImagePull" || waiting.Reason == "InvalidImageName"):
		trouble, found.Words = noImage, waiting.Reason+": "+waiting.Message
	case waiting != nil:
		trouble, found.Words = waits, fmt.Sprintf("waits: %s %s", waiting.Reason, waiting.Message)
	case container.State.Terminated != nil && container.State.Terminated.ExitCode != 0:
		trouble, found.Ended = crashes, true
		found.Words = fmt.Sprintf("ended with exit code %d (%s)", container.State.Terminated.ExitCode, container.State.Terminated.Reason)
	case container.State.Running != nil && !container.Ready:
		trouble, found.Words = notReady, "runs and is not ready: its readiness probe has not passed"
	default:
		return none, found
	}
	return trouble, found
}

// text for people, with what the container wrote.
func (c Container) text(wrote string) string {
	text := "pod " + c.Pod + ": "
	if c.Name != "" {
		text += "container " + c.Name + ": "
	}
	text += c.Words
	if wrote != "" {
		text += "; it wrote at last: " + wrote
	}
	return text
}
