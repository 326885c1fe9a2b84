package web

import (
	"sync"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/workflow"
)

// maxDefinitions are kept in memory.
const maxDefinitions = 100

// definitionMemory keeps definitions that were read, by their digests: a page that is open is
// made again and again, and reading a definition compiles its guards.
type definitionMemory struct {
	mutex sync.Mutex
	known map[string]*workflow.Definition
}

// read returns the definition that a run follows; nil: this version of Lehr cannot read it.
func (d *definitionMemory) read(run *apipb.WorkflowRun) *workflow.Definition {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if known := d.known[run.Digest]; known != nil {
		return known
	}
	definition, _ := workflow.Read(run.Workflow+".yaml", []byte(run.Definition))
	if definition == nil {
		return nil
	}
	if len(d.known) >= maxDefinitions || d.known == nil {
		d.known = map[string]*workflow.Definition{}
	}
	d.known[run.Digest] = definition
	return definition
}
