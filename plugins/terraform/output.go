package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/modules"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// outputCommand prints an output; it is what a command of the operator's list of secrets runs.
const outputCommand = "output"

// printOutput prints one output of a module to standard output, and nothing else there.
func printOutput(arguments []string) int {
	err := readOutput(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, name+" "+outputCommand+":", err)
		return 1
	}
	return 0
}

func readOutput(arguments []string) error {
	flags := flag.NewFlagSet(name+" "+outputCommand, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: "+name+" "+outputCommand+" --engines FILE --partition NAME --asset ID OUTPUT")
		flags.PrintDefaults()
	}
	options := modules.Options{PlansAtOnce: 1, AppliesAtOnce: 1}
	engines := flags.String("engines", "", "the FILE that lists the programs, as the plugin has it")
	flags.StringVar(&options.Folder, "folder", defaultFolder(), "the plugin's folder")
	partition := flags.String("partition", "", "the partition of the module")
	asset := flags.String("asset", "", "the asset of the module, such as terraform/net")
	options.Secrets = resolver.Flag(flags, name)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 || *partition == "" || *asset == "" {
		flags.Usage()
		return errors.New("it is not said which output of which module")
	}
	var err error
	if options.Engines, err = allowlist.Open[enginelist.Engine](*engines, enginelist.Kind); err != nil {
		return fmt.Errorf("opening the list of engines: %w", err)
	}
	reader := modules.NewReader(options)
	value, err := reader.ReadOutput(context.Background(), serve.PartitionID(*partition), serve.AssetID(*asset), flags.Arg(0))
	if err != nil {
		return err
	}
	defer clear(value)
	_, err = os.Stdout.Write(value)
	return err
}
