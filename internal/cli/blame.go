package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/sdk/client"
)

func (s *session) blameCommand() *cobra.Command {
	var incarnation string
	command := &cobra.Command{
		Use:   "blame ASSET [FIELD]",
		Short: "Show where a field comes from: generator, file, line, commit, last change",
		Long: `Show where an asset or one of its fields comes from: the generator that made it,
the files that the generator read, the incarnation in which the field got its value,
and the commit that changed it. A value that came from another asset or field is
followed there, stage by stage. Nothing is guessed: a line is named only where no
other line of these files has the same name and value.`,
		Example: `  lehr blame web/a
  lehr blame web/a payload.replicas
  lehr blame web/a addons.Owner.owner --incarnation 12`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				request := &apipb.BlameAssetRequest{Partition: partition, Asset: args[0]}
				if len(args) == 2 {
					request.Field = args[1]
				}
				if incarnation != "" {
					request.Incarnation = incarnationID(partition, incarnation)
				}
				response, err := c.Assets.BlameAsset(command.Context(), request)
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printBlame(response)
				return nil
			})
		},
	}
	command.Flags().StringVar(&incarnation, "incarnation", "", "as of this incarnation instead of head")
	return command
}

func (s *session) printBlame(b *apipb.BlameAssetResponse) {
	for stage := b; stage != nil; stage = stage.From {
		if stage != b {
			fmt.Fprintln(s.Out)
		}
		s.printStage(stage)
	}
	s.printChangedBy(b)
}

// printStage prints where a field comes from, as far as one run of a generator goes.
func (s *session) printStage(b *apipb.BlameAssetResponse) {
	published := ""
	if b.Published != nil {
		published = fmt.Sprintf("%s (%s)", b.Published.AsTime().UTC().Format(time.RFC3339), s.ago(b.Published))
	}
	more := ""
	if b.MoreInputs > 0 {
		more = fmt.Sprintf("and %d more files", b.MoreInputs)
	}
	var derived []string
	var resolved []string
	for _, d := range b.Derived {
		if d.Field != "" {
			resolved = append(resolved, "resolved", resolvedBy(d))
			continue
		}
		derived = append(derived, fmt.Sprintf("%s by generate.%s, %s", lastName(d.Addon), d.Name, placed(d.Place)))
	}
	pairs := []string{"asset", b.Asset, "field", b.Field}
	if b.Because != "" {
		pairs = []string{"comes from", strings.TrimSpace(b.Asset + " " + b.Field), "because", b.Because}
	}
	pairs = append(pairs, "value", b.Value, "was", b.Was, "unchanged since", changeTime(b), "published", published, "generator", b.Generator, "made at", placed(b.Made))
	for _, input := range b.Inputs {
		pairs = append(pairs, "read", placed(input))
	}
	pairs = append(pairs, "read", more, "read assets", strings.Join(b.Read, ", "), "derived", strings.Join(derived, "; "))
	pairs = append(pairs, resolved...)
	if b.Line != nil {
		line := placed(b.Line)
		switch b.Line.Under {
		case "":
		case "-":
			line += ", an entry of a list, which changed in the same incarnation"
		default:
			line += fmt.Sprintf(", under the name %s, which changed in the same incarnation", b.Line.Under)
		}
		pairs = append(pairs, "line", line)
	}
	fields(s.Out, pairs...)
	switch {
	case b.Unknown:
		fmt.Fprintf(s.Out, "\nWhich generator and files it comes from was not kept of %s. It is when the asset changes next.\n", plain(b.Since))
	case b.From != nil:
	case b.Field != "" && len(derived) > 0:
		fmt.Fprintln(s.Out, "\nThe derivation gave the addon, or a part of it.")
	case b.Field != "" && b.Line == nil && len(b.Inputs) > 0 && len(resolved) == 0:
		fmt.Fprintln(s.Out, "\nThe line is not known: not exactly one line of these files has the field's name and value.")
	case b.Field != "" && b.Line == nil && len(b.Read) > 0 && len(resolved) == 0 && b.Made.GetChanged() == nil:
		fmt.Fprintln(s.Out, "\nWhich field of the assets that the generator read it comes from is not known: not exactly one has its name and value, or changed with it.")
	}
}

// madeBy is what is known of the change that made a field what it is: the change of
// its line, or else those of all files that it was made from.
func madeBy(b *apipb.BlameAssetResponse) (line *apipb.Place, files []*apipb.Place) {
	last := b
	for last.From != nil {
		last = last.From
	}
	if changed := last.Line.GetChanged(); changed.GetLine() && (!changed.Old || last.Before == "") {
		return last.Line, nil
	}
	add := func(p *apipb.Place) {
		if p.GetChanged() != nil && p.Source != nil && !slices.ContainsFunc(files, func(other *apipb.Place) bool {
			return other.Source.Source == p.Source.Source && other.Changed.Revision == p.Changed.Revision
		}) {
			files = append(files, p)
		}
	}
	for stage := b; stage != nil; stage = stage.From {
		for _, input := range stage.Inputs {
			add(input)
		}
		add(stage.Made)
		for _, d := range stage.Derived {
			add(d.Place)
		}
	}
	return nil, files
}

// printChangedBy names the commit that made a field what it is, or what is known of
// it: the commits that changed the files, or between which it was.
func (s *session) printChangedBy(b *apipb.BlameAssetResponse) {
	line, files := madeBy(b)
	row := func(p *apipb.Place, c *apipb.SourceChange) *apipb.SourceRevision {
		return &apipb.SourceRevision{Source: p.Source.GetSource(), Revision: c.Revision, Commit: c.Commit}
	}
	switch {
	case line != nil && line.Changed.Earlier:
		s.printRevisions(fmt.Sprintf("%s:%d was written by this commit, or by an earlier one, which is not known:", line.File, line.Line), row(line, line.Changed))
		return
	case line != nil:
		s.printRevisions(fmt.Sprintf("%s:%d was changed by:", line.File, line.Line), row(line, line.Changed))
		return
	case b.Before != "" && len(files) > 0:
		var rows []*apipb.SourceRevision
		for _, p := range files {
			for _, c := range append([]*apipb.SourceChange{p.Changed}, p.Others...) {
				if r := row(p, c); !slices.ContainsFunc(rows, func(other *apipb.SourceRevision) bool {
					return other.Source == r.Source && other.Revision == r.Revision
				}) {
					rows = append(rows, r)
				}
			}
		}
		s.printRevisions("What it was made from was changed by:", rows...)
		return
	}
	var last *apipb.BlameAssetResponse
	for last = b; last.From != nil; {
		last = last.From
	}
	if b.Before != "" {
		var rows []*apipb.SourceRevision
		for _, r := range sourcesOf(last) {
			at := slices.IndexFunc(b.SourcesBefore, func(revision *apipb.SourceRevision) bool { return revision.Source == r.Source })
			if r.Commit == nil || at >= 0 && b.SourcesBefore[at].Revision == r.Revision {
				continue
			}
			if at >= 0 {
				rows = append(rows, b.SourcesBefore[at])
			}
			rows = append(rows, r)
		}
		s.printRevisions(fmt.Sprintf("It changed between these commits, of %s and of %s:", b.Before, b.Since), rows...)
		return
	}
	s.printRevisions("Which commit changed it is not known; the sources were at:", sourcesOf(last)...)
}

// printRevisions lists commits and revisions below a heading; nothing if there are
// none.
func (s *session) printRevisions(heading string, revisions ...*apipb.SourceRevision) {
	revisions = slices.DeleteFunc(slices.Clone(revisions), func(r *apipb.SourceRevision) bool { return r.Commit == nil })
	if len(revisions) == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\n%s\n", plain(heading))
	for _, r := range revisions {
		fmt.Fprintf(s.Out, "  %s  %s  %s  %s  %s\n", plain(r.Source), plain(r.Revision), r.Commit.Time.AsTime().UTC().Format(time.RFC3339), plain(r.Commit.Author), plain(r.Commit.Subject))
	}
}

// resolvedBy says which resolver changed a field, and why.
func resolvedBy(d *apipb.Derivation) string {
	if d.Name == outputs.Document {
		return fmt.Sprintf("%s, which asked for %s: %s, %s", d.Field, d.Was, d.Reason, cmp.Or(placed(d.Place), "no document has it"))
	}
	return fmt.Sprintf("%s, which was %s, by generate.%s, %s: %s", d.Field, cmp.Or(d.Was, "not set"), d.Name, placed(d.Place), d.Reason)
}

func resolvedText(d Resolved) string {
	if d.By == outputs.Document {
		return fmt.Sprintf("%s, which asked for %s: %s", d.Field, d.Was, d.Reason)
	}
	return fmt.Sprintf("%s, which was %s, by generate.%s: %s", d.Field, cmp.Or(d.Was, "not set"), d.By, d.Reason)
}

// printResolved lists what resolvers changed of an asset, if that is known.
func (s *session) printResolved(ctx context.Context, c *client.Client, partition, asset, incarnation, indent string) {
	b, err := c.Assets.BlameAsset(ctx, &apipb.BlameAssetRequest{Partition: partition, Asset: asset, Incarnation: incarnation})
	if err != nil {
		return // Where it comes from is beside the point of the command.
	}
	for _, d := range b.Derived {
		if d.Field != "" {
			fmt.Fprintf(s.Out, "%sresolved: %s\n", indent, plain(resolvedBy(d)))
		}
	}
}

// changeTime is when it became so, as exactly as is known.
func changeTime(b *apipb.BlameAssetResponse) string {
	switch {
	case b.Cut:
		return b.Since + ", or earlier: it was looked for no further back"
	case b.Exact:
		return b.Since
	case b.Before == "":
		return b.Since + ", or earlier: nothing older is retained"
	}
	return fmt.Sprintf("%s, or earlier, after %s: what is between them is not retained", b.Since, b.Before)
}

// sourcesOf are the sources that the asset or field comes from, each once; only that of
// the line, if it is known.
func sourcesOf(b *apipb.BlameAssetResponse) (sources []*apipb.SourceRevision) {
	places := append([]*apipb.Place{b.Made}, b.Inputs...)
	for _, d := range b.Derived {
		places = append(places, d.Place)
	}
	switch {
	case b.Unknown:
		return b.Sources
	case b.Line.GetSource() != nil:
		return []*apipb.SourceRevision{b.Line.Source}
	}
	for _, p := range places {
		if r := p.GetSource(); r != nil && !slices.ContainsFunc(sources, func(other *apipb.SourceRevision) bool { return other.Source == r.Source }) {
			sources = append(sources, r)
		}
	}
	return sources
}

// placed is a file, its line, and its source.
func placed(p *apipb.Place) string {
	text := p.GetFile()
	if text == "" {
		return ""
	}
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Source != nil {
		text += fmt.Sprintf(" (source %s at %s)", p.Source.Source, intent.ShortRevision(p.Source.Revision))
	}
	return text
}
