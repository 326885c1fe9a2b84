package tfstate

import (
	"context"
	"io"
	"os"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/importer/tfroots"
)

// Kind imports what Terraform manages.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "terraform", Arguments: "[STATE]", Short: "What Terraform manages: root modules, or a state",
		Long: `With --module FOLDER, read the root modules in that folder and below it, as people,
Atlantis and Terragrunt lay them out, and write a partition with an asset for each, in mode
observe. The files, states and backends stay where they are; the states that a module
reads become edges. No backend and no provider is asked.

With STATE, a file or - for standard input, read a state of Terraform, as "terraform show
-json" prints it or as it is stored, and write one model of each resource. With both, the
state is read to see that it is one, and the modules are written.

Nothing that is sensitive, or sounds so, is copied.`,
	}
	kind.Args.Least, kind.Args.Most = 0, 1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		module := flags.String("module", "", "a folder with root modules: the one in which terraform is run, or one above several")
		program := flags.String("terraform", "terraform", "the Terraform or OpenTofu that the operator's list is to have")
		return func(ctx context.Context, args []string) (importer.Import, error) {
			return readArguments(ctx, args, *module, *program)
		}
	}
	return kind
}

func readArguments(ctx context.Context, args []string, module, program string) (importer.Import, error) {
	if len(args) == 0 && module == "" {
		return importer.Import{}, fault.New(fault.Invalid, "it is not said what to import").WithHint("name a folder with root modules, --module FOLDER, or a state: terraform show -json > state.json")
	}
	var ofState importer.Import
	if len(args) > 0 {
		state, err := read(args[0])
		if err != nil {
			return importer.Import{}, fault.New(fault.NotFound, "cannot read the state: %w", err).WithHint("terraform show -json > state.json writes it")
		}
		if ofState, err = Read(state); err != nil || module == "" {
			return ofState, err
		}
	}
	result, err := tfroots.Read(module, tfroots.FindProgram(ctx, program))
	result.Read = append(result.Read, ofState.Read...)
	return result, err
}

func read(name string) ([]byte, error) {
	var source io.Reader = os.Stdin
	if name != "-" {
		file, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		source = file
	}
	// One byte more tells that there is too much.
	return io.ReadAll(io.LimitReader(source, MaxBytes+1))
}
