package prodspec_test

import (
	"fmt"
	"testing"

	"lehr.dev/internal/prodspec"
)

// BenchmarkOneChange saves one of many manifests and waits until it is
// published, reporting what the build itself took.
func BenchmarkOneChange(b *testing.B) {
	for _, files := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			w := newWorld(b, "many")
			for i := range files {
				w.write(fmt.Sprintf("manifests/%03d/%06d.yaml", i/1000, i), "replicas: 1")
			}
			w.remove("order.star")
			w.replace("lehr.yaml", "  order: {starlark: order.star, from: [jobs]}\n", "")
			w.start()
			first := w.wait("first build", func(s prodspec.Status) bool { return s.State == prodspec.Serving })
			sequence, took := first.Head.Sequence, 0.0
			for i := 0; b.Loop(); i++ {
				sequence++
				w.write("manifests/000/000000.yaml", fmt.Sprintf("replicas: %d", 2+i%2))
				took += w.served(sequence).Took.Seconds()
			}
			b.ReportMetric(first.Took.Seconds(), "s/first-build")
			b.ReportMetric(1000*took/float64(b.N), "ms/build")
		})
	}
}
