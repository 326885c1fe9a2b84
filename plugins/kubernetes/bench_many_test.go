package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/plane"
)

// manyObjects are there before, so that what is measured is following them, and not creating them.
const manyObjects = 10_000

// BenchmarkTenThousandObjects follows as many objects that are as intended: how long the first list
// takes, how much memory an object takes, and what a minute at rest costs.
func BenchmarkTenThousandObjects(b *testing.B) {
	for range b.N {
		p := plane.Start(b)
		m := &measured{B: b, plane: p, folder: b.TempDir(), objects: manyObjects, took: map[string]float64{}}
		m.seed()
		m.list()
		m.build()
		m.manifests("manifests", "bench", "1")
		startServer(m, m.folder, m.folder+"/lehr", benchSweep.String())
		empty := m.awaitPlugin()
		m.await("each object to be asked about", func() error {
			if asked := requests(p)["APPLY configmaps All"]; asked < manyObjects {
				return fmt.Errorf("%d were", asked)
			}
			return nil
		})
		m.rest()
		m.figure("lehr_kubernetes_memory_each_of_%d", (m.memory()-empty)*1024/manyObjects, "kB")
	}
}

// seed makes the objects, some at a time: it is as fast as the server can make them.
func (m *measured) seed() (took time.Duration) {
	post := func(path, body string) {
		if _, err := m.plane.Ask(http.MethodPost, path, "application/json", []byte(body)); err != nil {
			m.Error(err)
		}
	}
	namespace := "bench"
	if m.objects == benchObjects {
		namespace = "bare"
	}
	post("/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace))
	began := time.Now()
	numbers := make(chan int)
	var makers sync.WaitGroup
	for range 16 {
		makers.Go(func() {
			for i := range numbers {
				post("/api/v1/namespaces/"+namespace+"/configmaps", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"thing-%d"},"data":{"value":"1","other":"some text that stays"}}`, i))
			}
		})
	}
	for i := range m.objects {
		numbers <- i
	}
	close(numbers)
	makers.Wait()
	if m.Failed() {
		m.FailNow()
	}
	return time.Since(began)
}

// list lists all of the kind in the namespace, as the plugin's watch does.
func (m *measured) list() {
	server, err := kubeapi.Connect(clusterfile.Cluster{Kubeconfig: m.plane.Kubeconfig})
	if err != nil {
		m.Fatal(err)
	}
	place, err := server.Find(m.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "bench")
	if err != nil {
		m.Fatal(err)
	}
	began, listed := time.Now(), 0
	for token := ""; ; {
		page, err := place.Select("").List(m.Context(), token)
		if err != nil {
			m.Fatal(err)
		}
		listed += len(page.Items)
		if token = page.Continue; token == "" {
			break
		}
	}
	if listed < manyObjects {
		m.Fatalf("%d objects were listed", listed)
	}
	m.figure("lehr_kubernetes_first_list_%d", float64(time.Since(began).Milliseconds()), "ms")
}

// awaitPlugin waits until the plugin runs, and returns the memory that it takes before it knows much.
func (m *measured) awaitPlugin() float64 {
	m.plane.Wait("the plugin to run", func() error {
		if _, ok := m.findProcess("lehr-kubernetes"); !ok {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	return m.readMemory()
}
