package main

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"lehr.dev/sdk/generator/kubernetes"
)

// TestCanonicalQuantities: the content of an object has quantities as Kubernetes' own library writes
// them, or, where Kubernetes would round or refuse them, as they were written.
func TestCanonicalQuantities(t *testing.T) {
	var texts []string
	for _, number := range []string{"0", "1", "-1", "+2", "0.5", ".5", "5.", "1.25", "10", "100", "999", "1000", "1023", "1024", "1536", "2048", "4096", "65536", "1000000", "1048576", "0.001", "0.0000001", "123456789", "3.141592653", "-1024", "00012", "1073741824"} {
		for _, suffix := range []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "e0", "e2", "K", "GiB", "mi", " "} {
			texts = append(texts, number+suffix)
		}
	}
	same, left := 0, 0
	for _, text := range texts {
		manifest := fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a}\nspec: {hard: {cpu: %q}}\n", text)
		objects, _ := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(manifest)}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop"})
		value, err := decode([]byte(objects[0].Payload.Json))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := dig(value, "spec", "hard", "cpu").(string)
		quantity, err := resource.ParseQuantity(text)
		number, suffix := quantity.CanonicalizeBytes(nil)
		canonical := string(number) + string(suffix) // String repeats some that are not.
		switch {
		case err == nil && got == canonical:
			same++
		case got == text:
			left++
		default:
			t.Errorf("%q is %q, and Kubernetes writes %q %v", text, got, canonical, err)
		}
	}
	if same < 480 {
		t.Errorf("%d of %d quantities are as Kubernetes writes them, %d as they were written", same, len(texts), left)
	}
	t.Logf("%d as Kubernetes writes them, %d as written", same, left)
}
