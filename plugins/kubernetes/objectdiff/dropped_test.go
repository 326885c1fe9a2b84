package objectdiff

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const served = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","labels":{"a":"1","b":"2","c":"3"},"finalizers":["x/y"],"managedFields":[
{"manager":"lehr","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"x/y\"":{}},"f:labels":{"f:a":{},"f:b":{},"f:c":{}}},"f:spec":{"f:ports":{
"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}},"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},"f:type":{}}}},
{"manager":"other","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:c":{}}}}}]},
"spec":{"type":"ClusterIP","ports":[{"port":80,"protocol":"TCP","targetPort":8080},{"port":81,"protocol":"TCP","name":"more"}]}}`

// TestWhatIntentDoesNotNameAnyMore: what was ours goes; what the server put into a key, what
// others have too, and what intent names stays.
func TestWhatIntentDoesNotNameAnyMore(t *testing.T) {
	live := &unstructured.Unstructured{}
	if err := live.UnmarshalJSON([]byte(served)); err != nil {
		t.Fatal(err)
	}
	for intended, want := range map[string]string{
		`{"metadata":{"finalizers":["x/y"],"labels":{"a":"1","b":"2","c":"3"}},"spec":{"type":"ClusterIP","ports":[{"port":80,"targetPort":8080},{"port":81,"name":"more"}]}}`: "",
		`{"metadata":{"finalizers":["x/y"],"labels":{"a":"9"}},"spec":{"ports":[{"port":80,"targetPort":8080},{"port":81,"name":"more"}]}}`:                                    `metadata.labels.b="2" spec.type="ClusterIP"`,
		`{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`:                                                                          `metadata.finalizers[="x/y"]="x/y" spec.ports[port=80,protocol=TCP].targetPort=8080 spec.ports[port=81,protocol=TCP]={"name":"more","port":81,"protocol":"TCP"}`,
	} {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"Service",` + intended[1:])); err != nil {
			t.Fatal(err)
		}
		dropped, err := Dropped(live, object.Object, Managers{Own: "lehr"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, change := range dropped {
			got = append(got, fmt.Sprintf("%s=%s", Text(change.Path), Show(change.Current, change.HasCurrent)))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("of %s they are\n%s\nwant\n%s", intended, text, want)
		}
	}
}
