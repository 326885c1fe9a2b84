// Package canaries reads what Argo Rollouts and Flagger are told into a partition: workloads with
// two slots, which an ordinary rollout brings step by step, Services and routes with weights that
// never change, and validations by the same metrics. What would let a release go on where it does
// not now is refused, with its file and line; what else has no place is listed, with why. It only
// reads, and copies no secret (S13). The kinds "argo-rollouts" and "flagger" of lehr import call it.
package canaries

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// podHash is the label by which Argo Rollouts tells its pods apart. Workloads that come from there
// keep it, with the slot as its value: so the first push takes it over in each Service.
const podHash = "rollouts-pod-template-hash"

const usualInput = `Files are read, all .yaml, .yml and .json files of folders, and standard input as -. Nothing is asked
of a cluster, and nothing is changed there:

  kubectl get %s -n shop -o yaml | lehr import %s - --cluster eu --to shop

Each workload gets two slots, of which one is live, and rollouts that bring a release step by step. It
prints which share is carried over by feature, and lists the rest with file, line and reason.`

// ArgoRollouts imports Rollouts and their AnalysisTemplates.
func ArgoRollouts() importer.Kind {
	return kind("argo-rollouts", "Argo Rollouts", "Rollouts and AnalysisTemplates of Argo Rollouts, from files",
		"Read Rollout, AnalysisTemplate and ClusterAnalysisTemplate, and the Services and routes that they name.\n"+
			fmt.Sprintf(usualInput, "rollouts,analysistemplates,services,hpa,httproutes", "argo-rollouts"), (*reading).readRollouts)
}

// Flagger imports Canaries and their MetricTemplates.
func Flagger() importer.Kind {
	return kind("flagger", "Flagger", "Canaries and MetricTemplates of Flagger, from files",
		"Read Canary and MetricTemplate, and the Deployments and autoscalers that they name.\n"+
			fmt.Sprintf(usualInput, "canaries,metrictemplates,deployments,hpa", "flagger"), (*reading).readFlagger)
}

// settings are the flags.
type settings struct {
	cluster, namespace, prometheus, provider string
}

var clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func kind(name, tool, short, long string, translate func(*reading)) importer.Kind {
	made := importer.Kind{Name: name, Arguments: "FILE|FOLDER…", Short: short, Long: long}
	made.Args.Least, made.Args.Most = 1, -1
	made.Bind = func(flags *pflag.FlagSet) importer.Reader {
		var s settings
		flags.StringVar(&s.cluster, "cluster", "", "the name of the cluster that they are in; a part of the ids")
		flags.StringVar(&s.namespace, "namespace", "default", "the namespace of objects that name none")
		flags.StringVar(&s.prometheus, "prometheus", "main", "what the operator's file calls the Prometheus that is asked")
		if name == "flagger" {
			flags.StringVar(&s.provider, "mesh-provider", "", "what Flagger was started with, of Canaries that name no provider: istio, gatewayapi:v1, kubernetes, …")
		}
		return func(_ context.Context, args []string) (importer.Import, error) {
			if !clusterName.MatchString(s.cluster) {
				return importer.Import{}, fault.New(fault.Invalid, "it is not said which cluster the objects are in, or %.40q is no name of one", s.cluster).WithHint("add --cluster NAME: a-z, 0-9 and -")
			}
			r := &reading{tool: tool, settings: s, carried: map[string]int{}, total: map[string]int{}}
			if err := r.readFiles(args); err != nil {
				return importer.Import{}, err
			}
			return r.make(translate)
		}
	}
	return made
}

// reading is one import.
type reading struct {
	importer.Import
	tool     string
	settings settings
	objects  []*object
	// total counts values by feature, and carried those of them that were carried over.
	total, carried map[string]int
	// problems keep the import from being made.
	problems    []string
	workloads   []*workload
	validations []*validation
	// names that workloads and validations have.
	ids, checkedNames, checkNames []string
	// checks of lehr.yaml, by name.
	checks mapping
	// sources are addresses by the names that the operator is to give them.
	sources map[string]string
}

func (r *reading) make(translate func(*reading)) (importer.Import, error) {
	if len(r.problems) == 0 {
		translate(r)
	}
	if len(r.problems) == 0 && len(r.workloads) == 0 {
		return importer.Import{}, fault.New(fault.NotFound, "there is nothing of %s that has pods", r.tool).
			WithHint("name files that hold a Rollout of argoproj.io, or a Canary of flagger.app, as kubectl get -o yaml prints them")
	}
	if most := 16; len(r.workloads) > most {
		r.problems = append(r.problems, fmt.Sprintf("there are %d workloads, and a partition has at most 50 rollouts, three for each", len(r.workloads)))
	}
	if len(r.problems) > 0 {
		return importer.Import{}, fault.New(fault.Invalid, "it cannot be imported: %s", strings.Join(r.problems, "; ")).
			WithHint("mend these lines, name the files that have what is missing, or import fewer files at a time; then import again")
	}
	if err := r.describe(); err != nil {
		return importer.Import{}, err
	}
	return r.Import, nil
}

// share is a part of a whole, with its percentage rounded down.
func share(part, whole int) string {
	return fmt.Sprintf("%d of %d (%d %%)", part, whole, part*100/max(whole, 1))
}
