package kubeobject

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","resourceVersion":"7","managedFields":[
{"manager":"lehr","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:a":{}}}},
{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:status":{}}}]},"data":{"a":"1"},"status":{"ready":1}}`

func digest(t *testing.T, text string) [sha256.Size]byte {
	t.Helper()
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(read.Object)
	digest := digestOf(read)
	if after := fmt.Sprint(read.Object); after != before {
		t.Errorf("the object became %s", after)
	}
	return digest
}

// TestWhatAPredictionDependsOn: a status, a version and times make no prediction another one;
// a value, a manager and the fields that it has do.
func TestWhatAPredictionDependsOn(t *testing.T) {
	base := digest(t, object)
	for _, change := range []struct {
		old, new string
		other    bool
	}{
		{`"resourceVersion":"7"`, `"resourceVersion":"8"`, false},
		{`"ready":1`, `"ready":2`, false},
		{`2026-01-01`, `2026-02-02`, false},
		{`{"f:status":{}}`, `{"f:status":{"f:ready":{}}}`, false},
		{`"data":{"a":"1"}`, `"data":{"a":"2"}`, true},
		{`"uid":"u"`, `"uid":"v"`, true},
		{`"manager":"lehr"`, `"manager":"helm"`, true},
		{`{"f:data":{"f:a":{}}}`, `{"f:data":{}}`, true},
	} {
		changed := strings.ReplaceAll(object, change.old, change.new)
		if changed == object {
			t.Fatalf("no %s", change.old)
		}
		if other := digest(t, changed) != base; other != change.other {
			t.Errorf("with %s it is another one: %v", change.new, other)
		}
	}
}

// TestPredictionsAreMadeAnewAtDifferentTimes spreads what was predicted at once.
func TestPredictionsAreMadeAnewAtDifferentTimes(t *testing.T) {
	const most, count = 6 * time.Hour, 1000
	tenths := map[int]int{}
	for i := range count {
		holds := spread(most, sha256.Sum256(fmt.Append(nil, i)))
		if holds < most/2 || holds > most {
			t.Fatalf("it holds for %v", holds)
		}
		tenths[int(10*(holds-most/2)/(most/2))]++
	}
	for tenth, n := range tenths {
		if n < count/20 || n > count/5 {
			t.Errorf("%d of %d end in the tenth %d", n, count, tenth)
		}
	}
}
