// Command rename gives declared names others, everywhere at once, and carries the mutants along.
//
//	go run ./tools/rename -list names.txt          # renames what a list says
//	go run ./tools/rename -ok ./internal/...       # names the second value of look-ups "ok"
//	go run ./tools/rename -measure                 # counts the names that say nothing by themselves
//
// A line of a list is FILE NAME NEW. NAME is a name of the package ("ward"), a field or method
// ("ward.members"), or what a function or method declares, parameters included
// ("Enforcer.look/a"). Lines that begin with # are comments.
//
// Nothing else changes: afterwards every identifier must refer to the declaration that it
// referred to before, or nothing is written. Mutants (internal/sim/mutation) replace literal
// pieces of files: those pieces, and what takes their place, are renamed with the code. It
// prints how many mutants there are, and which of them it could not follow.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	list := flag.String("list", "", "a file of lines FILE NAME NEW")
	lookups := flag.Bool("ok", false, "name the second value of look-ups ok, in the packages named")
	measure := flag.Bool("measure", false, "count the names of the packages named that are a bare preposition, pronoun or participle, and print them with -v")
	skip := flag.Bool("skip", false, "leave out lines of the list that cannot be done")
	verbose := flag.Bool("v", false, "print each name")
	mutants := flag.String("mutants", "internal/sim/mutation", "the folder of the mutants, empty for none")
	flag.Parse()
	if err := run(*list, *skip, *lookups, *measure, *verbose, *mutants, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
}

func run(list string, skip, lookups, measure, verbose bool, mutants string, patterns []string) error {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	// All is loaded, whatever is named: others refer to it.
	code, err := load(".")
	if err != nil {
		return err
	}
	if measure {
		code.measure(os.Stdout, patterns, verbose)
		return nil
	}

	chosen := renames{}
	if list != "" {
		text, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		problems := code.choose(chosen, strings.Split(string(text), "\n"))
		for _, problem := range problems {
			fmt.Println("not done:", problem)
		}
		if len(problems) > 0 && !skip {
			return fmt.Errorf("%d lines of the list cannot be done; -skip does the others", len(problems))
		}
	}
	if lookups {
		code.chooseLookups(chosen, patterns)
	}
	if len(chosen) == 0 {
		return fmt.Errorf("nothing to rename: give -list FILE or -ok")
	}

	if err := code.addModules(chosen); err != nil {
		return err
	}
	changed := code.apply(chosen)
	if mutants != "" {
		carried, err := code.carryMutants(mutants, chosen, changed)
		if err != nil {
			return err
		}
		fmt.Printf("%d mutants, of which %d changed\n", carried.all, carried.changed)
		for _, doubt := range carried.doubts {
			fmt.Println("  look at", doubt)
		}
	}
	if err := code.verify(changed); err != nil {
		return err
	}
	for name, text := range changed {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d names renamed in %d files\n", len(chosen), len(changed))
	return nil
}
