package workload

import (
	"fmt"

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

// worstPod says in words what is wrong with the pod that fares worst; empty: with none.
func worstPod(pods []unstructured.Unstructured) string {
	worst, reason := none, ""
	for _, one := range pods {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &pod) != nil {
			continue
		}
		trouble, words := podTrouble(&pod)
		if trouble < worst {
			worst, reason = trouble, fmt.Sprintf("pod %s: %s", pod.Name, words)
		}
	}
	return reason
}

func podTrouble(pod *corev1.Pod) (trouble int, words string) {
	trouble = none
	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if t, w := containerTrouble(container); t < trouble {
			trouble, words = t, w
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable && unschedulable < trouble {
			trouble, words = unschedulable, "Unschedulable: "+condition.Message
		}
	}
	if pod.Status.Phase == corev1.PodFailed && failed < trouble {
		trouble, words = failed, fmt.Sprintf("failed: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	return trouble, words
}

func containerTrouble(container corev1.ContainerStatus) (trouble int, words string) {
	waiting, last := container.State.Waiting, container.LastTerminationState.Terminated
	switch {
	case waiting != nil && waiting.Reason == "CrashLoopBackOff" && last != nil:
		return crashes, fmt.Sprintf("container %s: CrashLoopBackOff, it ended with exit code %d (%s), %d restarts", container.Name, last.ExitCode, last.Reason, container.RestartCount)
	case waiting != nil && waiting.Reason == "CrashLoopBackOff":
		return crashes, fmt.Sprintf("container %s: CrashLoopBackOff, %s", container.Name, waiting.Message)
	case waiting != nil && (waiting.Reason == "ImagePullBackOff" || waiting.Reason == "ErrImagePull" || waiting.Reason == "InvalidImageName"):
		return noImage, fmt.Sprintf("container %s: %s: %s", container.Name, waiting.Reason, waiting.Message)
	case waiting != nil:
		return waits, fmt.Sprintf("container %s waits: %s %s", container.Name, waiting.Reason, waiting.Message)
	case container.State.Terminated != nil && container.State.Terminated.ExitCode != 0:
		return crashes, fmt.Sprintf("container %s ended with exit code %d (%s)", container.Name, container.State.Terminated.ExitCode, container.State.Terminated.Reason)
	case container.State.Running != nil && !container.Ready:
		return notReady, fmt.Sprintf("container %s runs and is not ready: its readiness probe has not passed", container.Name)
	}
	return none, ""
}
