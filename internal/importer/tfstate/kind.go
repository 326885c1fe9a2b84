package tfstate

import (
	"context"
	"io"
	"os"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
)

// Kind imports what Terraform manages.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "terraform", Arguments: "STATE", Short: "What Terraform manages, from its state",
		Long: `Read a state of Terraform, as "terraform show -json" prints it or as it is stored,
and write one model of each resource; or, with --module, a partition of the module
that the state is of. STATE is a file, or - for standard input. Nothing that is
sensitive, or sounds so, is copied.`,
	}
	kind.Args.Least, kind.Args.Most = 1, 1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		module := flags.String("module", "", "the folder of the module that the state is of")
		return func(_ context.Context, args []string) (importer.Import, error) {
			state, err := read(args[0])
			if err != nil {
				return importer.Import{}, fault.New(fault.NotFound, "cannot read the state: %w", err).WithHint("terraform show -json > state.json writes it")
			}
			return Read(state, *module)
		}
	}
	return kind
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
