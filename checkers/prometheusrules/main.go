// Command lehr-prometheus-rules is the checking program prometheus-rules: Prometheus' own library
// reads every rule file that it is given, and its engine plays the unit tests, in promtool's
// format. It gives findings, changes nothing, and asks nobody. Lehr starts it in a sandbox.
package main

import (
	"fmt"

	"lehr.dev/sdk/generator"
)

func main() { generator.Main(check) }

// check reads all that was given, and then plays the tests.
func check(in *generator.Input, out *generator.Output) error {
	options, err := in.Options("require_tests", "if_none")
	if err != nil {
		return err
	}
	requireTests, err := options.One("require_tests", "false")
	if err != nil {
		return err
	}
	if requireTests != "true" && requireTests != "false" {
		return fmt.Errorf("with: {require_tests: %s}: write true or false", requireTests)
	}
	found, err := collect(in, out)
	if err != nil {
		return err
	}
	passesNone, err := options.PassesNone()
	if err != nil {
		return err
	}
	if len(found.rules) == 0 && passesNone {
		return nil
	}
	if len(found.rules) == 0 {
		out.Error("let from name what has files or assets with a list groups, or remove the check", "nothing that it was given has rules of Prometheus")
		return nil
	}
	for _, text := range found.rules {
		text.check(out)
	}
	tests := 0
	for _, file := range found.tests {
		tests += file.play(found.rules, out)
	}
	if tests == 0 && requireTests == "true" {
		out.Error("add a test file, in the format of promtool test rules, to a source that the check reads", "with: {require_tests: true}: there is no unit test of the rules")
	}
	return nil
}
