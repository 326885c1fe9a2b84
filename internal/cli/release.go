package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// releasePause is between two looks of --watch.
const releasePause = time.Second

func (s *session) releaseCommand() *cobra.Command {
	command := family("release", "Let versions of several applications go out together")
	command.Long = `A release names one version each of several applications that go out together. Its line, under
releases: in lehr.yaml, says which applications it may have and in which order they go.

Several releases are under way at once. A train waits until those before it have come; an
immediate release passes them by. lehr release status shows how far each has come and what it
waits for.`
	command.AddCommand(s.releaseCreateCommand(false), s.releaseCreateCommand(true), s.releaseStatusCommand())
	for _, act := range releaseActs {
		command.AddCommand(s.releaseActCommand(act))
	}
	return command
}

// parseVersions reads APPLICATION=VERSION arguments.
func parseVersions(args []string) (map[string]string, error) {
	versions := map[string]string{}
	for _, arg := range args {
		name, version, ok := strings.Cut(arg, "=")
		if !ok || name == "" || version == "" {
			return nil, fault.New(fault.Invalid, "%.100q is no APPLICATION=VERSION", arg).WithHint("write payments=1.8.0")
		}
		if _, ok := versions[name]; ok {
			return nil, fault.New(fault.Invalid, "%s is named twice", name).WithHint("name one version of each application")
		}
		versions[name] = version
	}
	return versions, nil
}

func (s *session) releaseCreateCommand(isPlan bool) *cobra.Command {
	var line, reason string
	var train, immediate, despiteTrial bool
	command := &cobra.Command{
		Use: "create APPLICATION=VERSION...", Short: "Make a release", Args: cobra.MinimumNArgs(1),
		Long: `Makes a release of one version each of some applications of the line. Each of their environments
takes it as soon as its constraints let it in, in the order that the line says. First it is tried what the
partitions would be with it: a release that would be refused there, or with which an asset would lack
the version of another one that it needs, is not made.`,
		Example: `  lehr release create payments=1.8.0 orders=2.3.1 --reason "new checkout"
  lehr release create payments=1.8.1 --immediate --reason "it lost payments"`,
	}
	if isPlan {
		command.Use, command.Short = "plan APPLICATION=VERSION...", "Show what a release would come to, and make none"
		command.Long = "Shows how a release would stand in each environment right after it was made, and makes none."
		command.Example = "  lehr release plan payments=1.8.0 orders=2.3.1"
	} else {
		command.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it")
		command.Flags().BoolVar(&despiteTrial, "despite-trial", false, "make it though a trial found that it would break something")
	}
	command.Flags().StringVar(&line, "line", "", "the line of releases, where the partition has several")
	command.Flags().BoolVar(&train, "train", false, "have it wait until older releases have come (default: as the line says)")
	command.Flags().BoolVar(&immediate, "immediate", false, "have it pass by older releases (default: as the line says)")
	command.MarkFlagsMutuallyExclusive("train", "immediate")
	command.RunE = func(command *cobra.Command, args []string) error {
		if isPlan {
			reason = "plan"
		}
		if err := reasoned(command, reason); err != nil {
			return err
		}
		versions, err := parseVersions(args)
		if err != nil {
			return err
		}
		request := &apipb.CreateReleaseRequest{Line: line, Versions: versions, Reason: reason, DryRun: isPlan, DespiteTrial: despiteTrial}
		switch {
		case train:
			request.Mode = apipb.CreateReleaseRequest_MODE_TRAIN
		case immediate:
			request.Mode = apipb.CreateReleaseRequest_MODE_IMMEDIATE
		}
		return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
			request.Partition = partition
			response, err := c.Releases.CreateRelease(command.Context(), request)
			if err != nil {
				return err
			}
			if s.json() {
				return printMessage(s.Out, response)
			}
			for _, warning := range response.Warnings {
				fmt.Fprintf(s.Out, "Note: %s\n", plain(warning))
			}
			if isPlan {
				fmt.Fprintf(s.Out, "Nothing is made. As release %d of %s it would stand so:\n", response.Release.Number, plain(response.Release.Line))
			} else {
				fmt.Fprintf(s.Out, "Made release %d of %s. It stands so:\n", response.Release.Number, plain(response.Release.Line))
			}
			printStandings(s, response.Release)
			return nil
		})
	}
	return command
}

// modeWord says whether a release is a train.
func modeWord(r *apipb.Release) string {
	if r.Immediate {
		return "immediate"
	}
	return "train"
}

// releasedVersions are those of a release, with the names of applications as short as they can be.
func releasedVersions(r *apipb.Release) string {
	var words []string
	for _, v := range r.Versions {
		words = append(words, shortApplication(r, v.Application)+"="+versionText(v.Version))
	}
	return strings.Join(words, " ")
}

// shortApplication is an application's name without its partition, unless another one of the release has that name.
func shortApplication(r *apipb.Release, name string) string {
	_, short, _ := strings.Cut(name, "/")
	for _, other := range r.Versions {
		if _, word, _ := strings.Cut(other.Application, "/"); word == short && other.Application != name {
			return name
		}
	}
	return short
}

// printStandings of one release, by environment and application.
func printStandings(s *session, r *apipb.Release) {
	var rows [][]string
	for _, cell := range r.Cells {
		for _, one := range cell.Standings {
			rows = append(rows, []string{cell.Environment, shortApplication(r, one.Application), versionText(one.Version), one.State, at(one.Earliest), one.Text})
		}
	}
	table(s.Out, []string{"ENVIRONMENT", "APPLICATION", "VERSION", "STATE", "EARLIEST", "TEXT"}, rows)
	for _, v := range r.Versions {
		if v.Trouble != "" {
			fmt.Fprintf(s.Out, "%s cannot be read: %s\n", plain(v.Application), plain(v.Trouble))
		}
	}
}

func (s *session) releaseStatusCommand() *cobra.Command {
	var line string
	var all, watch bool
	var limit int32
	command := &cobra.Command{
		Use: "status [NUMBER]", Short: "Show how far releases have come", Args: cobra.MaximumNArgs(1),
		Long: `Shows the releases that are under way, each with its state in every environment, or of one release
what each of its versions waits for and when it can be there at the earliest. With --watch it
shows it again whenever it changes, until the release is done or aborted.`,
		Example: `  lehr release status
  lehr release status 12 --watch`,
		RunE: func(command *cobra.Command, args []string) error {
			request := &apipb.ListReleasesRequest{Line: line, All: all, Limit: limit}
			if len(args) > 0 {
				number, err := parseRelease(args[0])
				if err != nil {
					return err
				}
				request.Number = number
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				request.Partition = partition
				return s.showReleases(command.Context(), c, request, watch)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&line, "line", "", "the line of releases, where the partition has several")
	flags.BoolVar(&all, "all", false, "also those that are done or aborted")
	flags.BoolVar(&watch, "watch", false, "show it again whenever it changes")
	flags.Int32Var(&limit, "limit", 20, "how many, at most 1000")
	return command
}

func parseRelease(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return 0, fault.New(fault.Invalid, "%.40q is no number of a release", text).WithHint("lehr release status lists them")
	}
	return int32(number), nil
}

// showReleases once, or whenever they change.
func (s *session) showReleases(ctx context.Context, c *client.Client, request *apipb.ListReleasesRequest, watch bool) error {
	var last []byte
	output := s.Out
	defer func() { s.Out = output }()
	for {
		response, err := c.Releases.ListReleases(ctx, request)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		s.Out = &text
		if err := s.printReleases(response, request.Number); err != nil {
			return err
		}
		if !bytes.Equal(text.Bytes(), last) {
			if last != nil && !s.json() {
				fmt.Fprintln(output)
			}
			if last = slices.Clone(text.Bytes()); len(last) > 0 {
				if _, err := output.Write(last); err != nil {
					return err
				}
			}
		}
		isOver := !slices.ContainsFunc(response.Releases, func(r *apipb.Release) bool { return r.State != "done" && r.State != "aborted" })
		if !watch || isOver {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(releasePause):
		}
	}
}

func (s *session) printReleases(response *apipb.ListReleasesResponse, number int32) error {
	if s.json() {
		return printMessage(s.Out, response)
	}
	if response.Line == "" {
		return fault.New(fault.Invalid, "the partition has several lines of releases, and none was named").WithHint("name one by --line: %s", strings.Join(response.Lines, ", "))
	}
	if number != 0 {
		s.printRelease(response.Releases[0])
		return nil
	}
	if len(response.Releases) == 0 {
		fmt.Fprintf(s.Out, "no release of %s is under way; lehr release status --all shows all\n", plain(response.Line))
		return nil
	}
	header := []string{"RELEASE", "MODE", "STATE", "VERSIONS"}
	for _, environment := range response.Environments {
		header = append(header, strings.ToUpper(plain(environment)))
	}
	var rows [][]string
	for _, r := range response.Releases {
		row := []string{strconv.Itoa(int(r.Number)), modeWord(r), r.State, releasedVersions(r)}
		for _, cell := range r.Cells {
			row = append(row, cell.State)
		}
		rows = append(rows, row)
	}
	table(s.Out, header, rows)
	if response.Next > 0 {
		fmt.Fprintln(s.Out, "there are older ones; --limit shows more")
	}
	return nil
}

func (s *session) printRelease(r *apipb.Release) {
	fields(s.Out, "Release", fmt.Sprintf("%d of %s", r.Number, r.Line), "Mode", modeWord(r), "State", r.State, "Made", fmt.Sprintf("%s by %s: %s", at(r.Created), r.By, r.Reason))
	for _, mark := range r.Marks {
		word := map[string]string{intent.ActHoldRelease: "Held", intent.ActSkipRelease: "Skipped", intent.ActAbortRelease: "Aborted"}[mark.Kind]
		where := ""
		if mark.Environment != "" {
			where = " in " + mark.Environment
		}
		fmt.Fprintf(s.Out, "%s%s: %s by %s: %s\n", word, plain(where), at(mark.At), plain(mark.By), plain(mark.Reason))
	}
	printStandings(s, r)
}

// releaseAct is what a person may ask about a release.
type releaseAct struct {
	kind, use, short, long string
	// somewhere: it may be about one environment, by --in.
	somewhere bool
}

var releaseActs = []releaseAct{
	{
		kind: intent.ActHoldRelease, use: "hold NUMBER", short: "Keep a release where it is",
		long: `No environment takes the release until lehr release resume, nor a later train of its
applications. An immediate release goes on.`,
	},
	{
		kind: intent.ActResumeRelease, use: "resume NUMBER", somewhere: true, short: "Go on with a release that is held or skipped",
		long: "Ends a hold and a skip of all environments, or with --in the skip of one.",
	},
	{
		kind: intent.ActSkipRelease, use: "skip NUMBER", somewhere: true, short: "Have environments go on without a release",
		long: `Environments that do not have the release never take it, and go on with the next one: all of
them, or with --in one. Those that have it keep it.`,
	},
	{
		kind: intent.ActAbortRelease, use: "abort NUMBER", short: "Take a release back",
		long: `No environment takes the release any more, and those that have its versions go back to what was
good there before. Versions that another release brings as well stay. It says which other
releases that touches. To try again, make another release.`,
	},
}

func (s *session) releaseActCommand(act releaseAct) *cobra.Command {
	request := &apipb.ActOnReleaseRequest{Kind: act.kind}
	command := &cobra.Command{
		Use: act.use, Short: act.short, Long: act.long, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, request.Reason); err != nil {
				return err
			}
			number, err := parseRelease(args[0])
			if err != nil {
				return err
			}
			request.Number = number
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				request.Partition = partition
				response, err := c.Releases.ActOnRelease(command.Context(), request)
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printReleaseEffects(response, request.DryRun)
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.Line, "line", "", "the line of releases, where the partition has several")
	flags.StringVar(&request.Reason, "reason", "", "why, for whoever finds it")
	flags.BoolVar(&request.DryRun, "dry-run", false, "show what it would change, and change nothing")
	if act.somewhere {
		flags.StringVar(&request.Environment, "in", "", "only in this environment")
	}
	return command
}

func (s *session) printReleaseEffects(response *apipb.ActOnReleaseResponse, dryRun bool) {
	if dryRun {
		fmt.Fprintln(s.Out, "Nothing is changed. It would come to this:")
	} else {
		fmt.Fprintln(s.Out, "Kept. It comes to this, within seconds:")
	}
	if len(response.Effects) == 0 {
		fmt.Fprintln(s.Out, "  no environment gets another version by it now")
	}
	for _, one := range response.Effects {
		for _, effect := range one.Effects {
			fmt.Fprintf(s.Out, "  %s in %s: %s, before: %s\n", plain(one.Application), plain(effect.Environment), plain(comesTo(effect.After)), plain(comesTo(effect.Before)))
		}
	}
	for _, touched := range response.Touches {
		fmt.Fprintf(s.Out, "  touches %s\n", plain(touched))
	}
}
