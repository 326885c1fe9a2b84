package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) whyCommand() *cobra.Command {
	var graph bool
	var subject, atText string
	command := &cobra.Command{
		Use:   "why [ASSET|GROUP|PARTITION|ENVIRONMENT|VERSION|WORKFLOW|RUN]",
		Short: "Show why an asset, a group, a version or a run of a workflow is as it is",
		Long: `Show why an asset, a group (a service, or one instance of it) or the partition is as it is:
the root cause, who owns it, what would end it, and when Lehr looks next; then the chain
of causes. A name is looked up among assets, then groups, the partition, environments of a
delivery, versions, and workflows; --as chooses where it means several things. For an
environment or a version, the answer is what a version waits for there, and the earliest
time at which it can be there. For a workflow or a run, such as promote#3, the answer is what
each machine waits for, and which part of a guard is not met.`,
		Example: `  lehr why                        # the whole partition, by root cause
  lehr why shop                   # a service
  lehr why shop/a                 # one instance of it
  lehr why web/a --graph          # the chain, drawn
  lehr why web/a -o mermaid       # to paste into a ticket
  lehr why production             # what its next version waits for
  lehr why 1.8.2                  # where a version is, and what keeps it out elsewhere
  lehr why promote#3              # what a run of a workflow waits for
  lehr why web/a --at 2h          # as it was two hours ago
  lehr why shop --at 2h           # a service, or the partition, then`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if graph && s.output != "table" {
				return fault.New(fault.Invalid, "--graph draws in the terminal").WithHint("leave out -o %s, or --graph", s.output)
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				asOf, err := s.moment(atText)
				if err != nil {
					return err
				}
				if subject == "environment" || subject == "version" {
					return s.whyVersion(command.Context(), c, partition, strings.Join(args, ""), subject)
				}
				asPicture := graph || s.output == "mermaid"
				ofRun := subject == "workflow" || subject == "" && len(args) > 0 && namesRun(args[0])
				switch {
				case ofRun && (asPicture || asOf != nil):
					return fault.New(fault.Invalid, "a run of a workflow is shown as it is now, in words").
						WithHint("lehr workflow history RUN shows what happened, and lehr workflow draw RUN draws its machines")
				case ofRun:
					return s.whyWorkflow(command.Context(), c, partition, strings.Join(args, ""))
				}
				request := &apipb.WhyRequest{Partition: partition, Asset: strings.Join(args, ""), Subject: subject, At: asOf}
				response, err := c.Reports.Why(command.Context(), request)
				if fault.Is(err, fault.NotFound) && subject == "" && len(args) > 0 && !asPicture && asOf == nil {
					for _, explain := range []func() error{
						func() error { return s.whyVersion(command.Context(), c, partition, args[0], "") },
						func() error { return s.whyWorkflow(command.Context(), c, partition, args[0]) },
					} {
						if other := explain(); !fault.Is(other, fault.NotFound) {
							return other
						}
					}
				}
				switch {
				case err != nil:
					return err
				case s.json():
					return printMessage(s.Out, response)
				case s.output == "mermaid":
					s.printMermaid(response)
				case graph:
					s.printGraph(response)
				case asOf != nil:
					fmt.Fprintf(s.Out, "As of %s (%s), by what was kept:\n\n", at(asOf), s.ago(asOf))
					s.now = asOf.AsTime // What is told is as old as it was then.
					if response.Subject == "asset" {
						s.printWhy(response)
					} else {
						s.printRolled(response)
					}
					fmt.Fprintf(s.Out, "\nnot known of then: %s\n", plain(strings.Join(response.Unknown, "; ")))
				case response.Subject == "asset":
					s.printWhy(response)
				default:
					s.printRolled(response)
				}
				return nil
			})
		},
	}
	command.Flags().BoolVar(&graph, "graph", false, "draw the chain as a tree")
	command.Flags().StringVar(&subject, "as", "", "what the name means: asset, group, partition, environment, version or workflow")
	command.Flags().StringVar(&atText, "at", "", "show it as it was at a time, or so long ago: 90m, 2h or 3d")
	command.Annotations = map[string]string{ownOutput: "mermaid"}
	return command
}

// printWhy prints the root cause first, then the chain that leads to it.
func (s *session) printWhy(w *apipb.WhyResponse) {
	fmt.Fprintln(s.Out, plain(w.Summary))
	s.printWayOut(w.Root, "  ")
	fmt.Fprintln(s.Out)
	fmt.Fprintf(s.Out, "%s is %s", plain(w.Asset), stateWords(w.State))
	if w.Report != nil && w.Report.Target != "" {
		fmt.Fprintf(s.Out, ", its target is %s", plain(w.Report.Target))
	}
	fmt.Fprintln(s.Out)
	s.printStanding(w.Standing, "  ")
	s.printReasons(onceTold(w.Reasons, w.Root), w.Asset, "  ")
	if w.Report != nil && w.Report.Plan != nil {
		fmt.Fprintln(s.Out)
		s.printPlan(w.Report, "")
	}
	for _, kind := range w.Also {
		fmt.Fprintf(s.Out, "\n%s is the name of a %s too: lehr why %s --as %s\n", plain(w.Asset), plain(kind), plain(w.Asset), plain(kind))
	}
}

// printWayOut says what would end a root cause, whose it is, and when it is looked at
// next.
func (s *session) printWayOut(r *apipb.Reason, indent string) {
	if r.GetHint() != "" {
		fmt.Fprintf(s.Out, "%s→ %s\n", indent, plain(r.Hint))
	}
	if parts := s.details(r); len(parts) > 0 {
		fmt.Fprintf(s.Out, "%s%s\n", indent, strings.Join(parts, "; "))
	}
}

// details a reason: who, since when, until when, when next.
func (s *session) details(r *apipb.Reason) []string {
	var parts []string
	add := func(format, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf(format, plain(value)))
		}
	}
	add("by %s", r.GetOwner())
	add("owner: %s", r.GetResponsible())
	if r.GetSince() != nil {
		add("for %s", s.age(r.Since))
	}
	add("ends %s", s.remaining(r.GetUntil()))
	add("looked at again %s at the latest", s.remaining(r.GetNext()))
	return parts
}

// printStanding says what is wanted in the end, what is followed now, and what is
// there.
func (s *session) printStanding(st *apipb.Standing, indent string) {
	if st == nil {
		return
	}
	current := strings.ReplaceAll(st.Current, "-", " ")
	if len(st.Differs) > 0 {
		current += " in " + strings.Join(st.Differs, ", ")
	}
	if members := standings(st.Members); members != "" {
		current = members
	}
	target := st.Target
	if target != "" && st.TargetBy != "" {
		target += " (" + st.TargetBy + ")"
	}
	var b strings.Builder
	fields(&b, "desired", cmp.Or(st.Desired, "nothing: it is not in head"), "target", target, "current", current)
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(s.Out, indent, line)
	}
}

// standings counts members by what production was found to be.
func standings(members map[string]int64) string {
	var parts []string
	for _, current := range []string{"in-sync", "differs", "unknown", "not-looked-at"} {
		if n := members[current]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(current, "-", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// stateWords are a state as people say it.
func stateWords(state string) string {
	switch intent.State(state) {
	case "":
		return "in a state that is not known"
	case intent.StateUnseen:
		return "not looked at yet"
	default:
		return plain(state)
	}
}

// messages says how many of them are.
func messages(n int64) string {
	if n == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", n)
}

// printRolled prints the root causes of a group or a partition, each with an example.
func (s *session) printRolled(w *apipb.WhyResponse) {
	fmt.Fprintln(s.Out, plain(w.Summary))
	fmt.Fprintf(s.Out, "  %s %s: %s\n", w.Subject, plain(w.Asset), cmp.Or(states(w.States), "nothing was looked at"))
	s.printStanding(w.Standing, "  ")
	for i, cause := range w.Causes {
		summary := cause.Summary
		if len(w.Causes) == 1 && cause.Root.GetKind() == kindRollout {
			summary = saidAbove // The line above ends with it.
		}
		fmt.Fprintf(s.Out, "\n%d. %s%s\n", i+1, howMany(cause), plain(summary))
		s.printWayOut(cause.Root, "   ")
		if len(cause.Names) > 1 || len(cause.Names) == 1 && cause.Names[0] != cause.Root.GetAsset() {
			fmt.Fprintf(s.Out, "   holds up %s\n", plain(namedOf(cause)))
		}
		if cause.Example != cause.Root.GetAsset() && len(cause.Chain) > 0 {
			fmt.Fprintf(s.Out, "   such as %s:\n", plain(cause.Example))
			s.printReasons(cause.Chain, cause.Example, "     ")
		}
	}
	for _, t := range w.FailingTargets {
		fmt.Fprintf(s.Out, "\nPeople may not know: notifications do not reach %s for %s, and %s not delivered: %s\n  → mend the target, or the file that names it; lehr get notifications shows how it goes\n",
			plain(t.Name), s.age(t.FailingSince), messages(t.Waiting+t.Dropped), plain(t.Problem))
	}
	if w.Followed > 0 {
		fmt.Fprintf(s.Out, "\nOf all that wait the first %d were followed; the counts are of all.\n", w.Followed)
	}
}

func howMany(c *apipb.Cause) string {
	switch c.Assets {
	case 0:
		return "all, " + c.Sort + ": "
	case 1:
		return "1 asset, " + c.Sort + ": "
	default:
		return fmt.Sprintf("%d assets, %s: ", c.Assets, c.Sort)
	}
}

// namedOf lists the first of a cause's assets.
func namedOf(c *apipb.Cause) string {
	text := strings.Join(c.Names, ", ")
	if more := c.Assets - int64(len(c.Names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printReasons prints a level of the chain; what is said of another asset
// than the one above names it.
func (s *session) printReasons(reasons []*apipb.Reason, subject, indent string) {
	for _, r := range reasons {
		fmt.Fprintf(s.Out, "%s%s: %s", indent, plain(subjectOf(r, subject)), plain(r.Text))
		if r.Until != nil {
			fmt.Fprintf(s.Out, " (ends %s)", s.remaining(r.Until))
		}
		fmt.Fprintln(s.Out)
		s.printFindings(r.Findings, indent+"  ")
		s.printReasons(r.Causes, cmp.Or(r.Asset, subject), indent+"  ")
	}
}

// kindRollout is the kind of a reason that tells where a rollout stands, which may be long:
// why what it brought is bad is among it.
const kindRollout = "rollout"

const saidAbove = "as said above"

// onceTold are reasons without what the first line says of a rollout.
func onceTold(reasons []*apipb.Reason, root *apipb.Reason) []*apipb.Reason {
	if root.GetKind() != kindRollout {
		return reasons
	}
	told := make([]*apipb.Reason, len(reasons))
	for i, r := range reasons {
		told[i] = proto.CloneOf(r)
		if r.Kind == root.Kind && r.Text == root.Text {
			told[i].Text = saidAbove
		}
		told[i].Causes = onceTold(r.Causes, root)
	}
	return told
}

func subjectOf(r *apipb.Reason, subject string) string {
	if r.Asset != subject && r.Asset != "" {
		return r.Asset + ", " + r.Kind
	}
	return r.Kind
}

// columns that a drawing fits into, as long as a word does.
const columns = 80

// printGraph draws the chain as a tree.
func (s *session) printGraph(w *apipb.WhyResponse) {
	fmt.Fprintf(s.Out, "%s: %s\n", plain(w.Asset), stateWords(w.State))
	if w.Subject == "asset" {
		s.drawReasons(w.Reasons, w.Asset, "")
		return
	}
	for i, cause := range w.Causes {
		lead, continuation := branch("", i == len(w.Causes)-1)
		s.draw(lead, continuation, howMany(cause)+cause.Summary)
		if len(cause.Chain) > 0 && cause.Example != cause.Root.GetAsset() {
			s.draw(continuation+"└─ ", continuation+"   ", cause.Example)
			s.drawReasons(cause.Chain, cause.Example, continuation+"   ")
		} else {
			s.drawEnd(cause.Root, continuation)
		}
	}
}

// branch is what a node's first line begins with, and the lines below it.
func branch(indent string, last bool) (lead, continuation string) {
	if last {
		return indent + "└─ ", indent + "   "
	}
	return indent + "├─ ", indent + "│  "
}

func (s *session) drawReasons(reasons []*apipb.Reason, subject, indent string) {
	for i, r := range reasons {
		lead, continuation := branch(indent, i == len(reasons)-1)
		s.draw(lead, continuation, subjectOf(r, subject)+": "+r.Text)
		if len(r.Causes) == 0 {
			s.drawEnd(r, continuation)
		}
		s.drawReasons(r.Causes, cmp.Or(r.Asset, subject), continuation)
	}
}

// drawEnd says of the end of a chain who, when, and what to do.
func (s *session) drawEnd(r *apipb.Reason, indent string) {
	if parts := s.details(r); len(parts) > 0 {
		s.draw(indent+"  ", indent+"  ", "("+strings.Join(parts, "; ")+")")
	}
	if r.GetHint() != "" {
		s.draw(indent+"  → ", indent+"    ", r.Hint)
	}
}

// draw prints a text behind its lead, broken into lines between words.
func (s *session) draw(lead, continuation, text string) {
	line, width := lead, len([]rune(lead))
	hasWord := false
	for word := range strings.FieldsSeq(plain(text)) {
		if n := len([]rune(word)); hasWord && width+1+n > columns {
			fmt.Fprintln(s.Out, line)
			line, width = continuation+word, len([]rune(continuation))+n
		} else {
			if hasWord {
				line, width = line+" ", width+1
			}
			line, width, hasWord = line+word, width+n, true
		}
	}
	fmt.Fprintln(s.Out, line)
}

// printMermaid writes the chain as a flowchart in Mermaid, which issue trackers and
// wikis draw.
func (s *session) printMermaid(w *apipb.WhyResponse) {
	fmt.Fprintln(s.Out, "flowchart TD")
	m := mermaid{session: s}
	top := m.node(w.Asset, stateWords(w.State))
	if w.Subject == "asset" {
		m.edges(top, w.Reasons)
		return
	}
	for _, cause := range w.Causes {
		source := top
		if cause.Example != cause.Root.GetAsset() && cause.Example != "" {
			source = m.node(cause.Example, fmt.Sprintf("one of %d", cause.Assets))
			fmt.Fprintf(s.Out, "  n%d --> n%d\n", top, source)
		}
		if len(cause.Chain) > 0 {
			m.edges(source, cause.Chain)
		} else {
			m.edges(source, []*apipb.Reason{cause.Root})
		}
	}
}

type mermaid struct {
	*session
	nodes int
}

func (m *mermaid) node(name, text string) int {
	m.nodes++
	fmt.Fprintf(m.Out, "  n%d[\"%s<br/>%s\"]\n", m.nodes, mermaidText(name), mermaidText(text))
	return m.nodes
}

func (m *mermaid) edges(source int, reasons []*apipb.Reason) {
	for _, r := range reasons {
		target := m.node(cmp.Or(r.Asset, "partition"), r.Text)
		fmt.Fprintf(m.Out, "  n%d -->|%s| n%d\n", source, mermaidText(r.Kind), target)
		m.edges(target, r.Causes)
	}
}

// mermaidText leaves nothing in a text that Mermaid reads as more than text.
func mermaidText(text string) string {
	return mermaidEscapes.Replace(plain(text))
}

var mermaidEscapes = strings.NewReplacer("#", "#35;", "\"", "#quot;", "<", "#lt;", ">", "#gt;", "|", "#124;", "`", "#96;", "&", "#amp;")
