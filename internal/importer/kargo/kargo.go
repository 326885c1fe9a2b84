// Package kargo reads the resources of a Kargo project into a partition: subscriptions of
// Warehouses become sources of versions and applications, Stages become environments of delivery,
// and what a promotion writes into a repository becomes the field that an environment sets. What
// would leave an environment with fewer constraints is an error with its file and line; what else
// has no place is listed, with why. It asks no cluster and runs no step. The kind "kargo" of lehr
// import calls it.
package kargo

import (
	"context"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/importer/adapters"
)

// Kind imports a project of Kargo.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "kargo", Arguments: "FILE|FOLDER…", Short: "A project of Kargo: Warehouses, Stages, PromotionTasks",
		Long: `Read Project, ProjectConfig, Warehouses, Stages, PromotionTasks and AnalysisTemplates of one
project of Kargo from files, folders or, as -, from standard input, and write a partition with
delivery: artifacts, environments with their constraints and verifications, and promotions into
git by commit or pull request. No cluster is asked, and nothing is changed there.

  kubectl get projectconfigs,warehouses,stages,promotiontasks,analysistemplates -n shop -o yaml | lehr import kargo - --to shop
  lehr import kargo kargo/ --checkout https://git.example.com/gitops.git=gitops --to shop

--checkout says where the files of a repository lie, so that images and charts in lists are found
by their names. It prints which share of the values is carried over, and lists the others with
the reason.`,
	}
	kind.Args.Least, kind.Args.Most = 1, -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		given := flags.StringArray("checkout", nil, "URL=FOLDER: where the files of a repository lie on this machine")
		return func(_ context.Context, args []string) (importer.Import, error) {
			folders := map[string]string{}
			for _, text := range *given {
				address, folder, ok := strings.Cut(text, "=")
				if !ok || address == "" || folder == "" {
					return importer.Import{}, fault.New(fault.Invalid, "--checkout %s is no URL=FOLDER", text).
						WithHint("write --checkout https://git.example.com/gitops.git=gitops")
				}
				folders[repositoryKey(address)] = folder
			}
			files, err := readAll(args)
			if err != nil {
				return importer.Import{}, err
			}
			return Read(files, folders)
		}
	}
	return kind
}

// File is one that was read.
type File struct {
	Name string
	Text []byte
}

// reading is one import.
type reading struct {
	importer.Import
	tally
	// checkouts are folders by the key of their repository.
	checkouts map[string]string
	project   string
	objects   []*object
	// configMaps and secrets are what expressions may ask of them; of secrets the address alone.
	configMaps, secrets map[string]map[string]any
	policies            []policy
	warehouses          []*warehouse
	stages              []*stage
	tasks               map[string]*task
	templates           map[string]*template
	documents           documents
	// programs run what Kargo ran.
	programs adapters.List
	// references that expressions were told, by their marks.
	references []reference
}

// Read reads the files of a project. Checkouts are folders by the key of their repository.
func Read(files []File, checkouts map[string]string) (importer.Import, error) {
	r := &reading{tally: newTally(), checkouts: checkouts, configMaps: map[string]map[string]any{}, secrets: map[string]map[string]any{},
		tasks: map[string]*task{}, templates: map[string]*template{}}
	for _, file := range files {
		if err := r.parse(file); err != nil {
			return importer.Import{}, err
		}
	}
	r.readObjects()
	if len(r.stages) == 0 && len(r.problems) == 0 {
		return importer.Import{}, fault.New(fault.Invalid, "there is no Stage of Kargo in what was read").
			WithHint("name the files or the folder with Warehouses and Stages (apiVersion: kargo.akuity.io/v1alpha1)")
	}
	r.checkStages()
	if len(r.problems) == 0 {
		r.runPromotions()
	}
	if len(r.problems) > 0 {
		return importer.Import{}, fault.New(fault.Invalid, "the project cannot be imported: %s", strings.Join(r.problems, "; ")).
			WithHint("mend these lines, and import the project again: without them an environment would let in what its Stage does not")
	}
	r.leaveRest()
	if err := r.describe(); err != nil {
		return importer.Import{}, err
	}
	r.Import.LeftOut = r.tally.leftOut
	return r.Import, nil
}

// readObjects reads each kind in the order in which they need each other.
func (r *reading) readObjects() {
	for _, kind := range []struct {
		name string
		read func(*object)
	}{
		{"Project", r.readProject}, {"ProjectConfig", r.readProject}, {"Warehouse", r.readWarehouse}, {"PromotionTask", r.readTask},
		{"ClusterPromotionTask", r.readTask}, {"AnalysisTemplate", r.readTemplate}, {"ClusterAnalysisTemplate", r.readTemplate}, {"Stage", r.readStage},
	} {
		for _, o := range r.objects {
			if o.kind == kind.name {
				r.keep(o.head...)
				kind.read(o)
			}
		}
	}
}

// readSpec reads the spec of an object.
func (r *reading) readSpec(o *object, known map[string]func(*yaml.Node)) {
	spec := child(o.node, "spec")
	if spec == nil {
		r.refuse(o.node, "the %s %s has no spec", o.kind, o.name)
		return
	}
	r.eachKey(spec, "the "+o.kind+" "+o.name, known)
}
