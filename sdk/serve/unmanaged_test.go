package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
)

// autoscaled is a shelf on which production says how many tasks there are, and
// so which.
type autoscaled struct {
	*shelf
	refuses error
}

func (a autoscaled) Yield(asset Asset[*processpb.Job], target, current *processpb.Job) error {
	paths, err := asset.Unmanaged()
	if err != nil || len(paths) != 1 || target.Replicas != current.Replicas {
		return fmt.Errorf("asked to yield %v (%w), and replicas are %d", paths, err, target.Replicas)
	}
	target.Tasks = current.Tasks
	return a.refuses
}

func withTasks(name string, tasks int) *processpb.Job {
	job := &processpb.Job{Name: name, Replicas: uint32(tasks), Tasks: map[uint32]*processpb.Task{}}
	for number := range tasks {
		job.Tasks[uint32(number)] = &processpb.Task{Binary: "/bin/task"}
	}
	return job
}

func unmanagedReplicas(t *testing.T, job *processpb.Job) Intent {
	t.Helper()
	asset := jobIntent(t, job, "Unmanaged")
	addon := &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "replicas", Reason: "the autoscaler's"}}}
	var err error
	if asset.Addons[0].Bytes, err = proto.Marshal(addon); err != nil {
		t.Fatal(err)
	}
	return asset
}

func TestWhatFollowsFromUnmanagedFieldsIsLeft(t *testing.T) {
	current := withTasks("shop", 2)
	world := &shelf{jobs: map[string]*processpb.Job{"shop": current}}
	intended := withTasks("shop", 1)
	intended.Version = "2"
	d := diffOne(For(autoscaled{shelf: world}, Serving{}), unmanagedReplicas(t, intended))
	if len(d.Plan.Changes) != 1 || d.Plan.Changes[0].Path != "version" {
		t.Errorf("the plan is %+v, want the version only", d.Plan)
	}
	var left []string
	for _, change := range d.Unmanaged {
		left = append(left, change.Path+" "+change.Reason)
	}
	if got := strings.Join(left, "; "); got != "replicas the autoscaler's; tasks[1].binary the autoscaler's" {
		t.Errorf("left to production: %s", got)
	}
	refusing := autoscaled{shelf: world, refuses: errors.New("no such port")}
	if d := diffOne(For(refusing, Serving{}), unmanagedReplicas(t, intended)); d.Outcome != Unknown || !strings.Contains(d.Reason, "no such port") {
		t.Errorf("%+v", d)
	}
}

// What is left to production is shown within what an answer may list.
func TestManyUnmanagedDifferencesAreFolded(t *testing.T) {
	world := &shelf{jobs: map[string]*processpb.Job{"shop": withTasks("shop", 3*maxChanges)}}
	d := diffOne(For(autoscaled{shelf: world}, Serving{}), unmanagedReplicas(t, withTasks("shop", 1)))
	if d.Outcome != InSync || len(d.Unmanaged) != maxChanges {
		t.Errorf("outcome %d, %d differences are left", d.Outcome, len(d.Unmanaged))
	}
}
