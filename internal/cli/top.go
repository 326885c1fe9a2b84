package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) topCommand() *cobra.Command {
	var every time.Duration
	var once bool
	command := &cobra.Command{
		Use:   "top",
		Short: "Show what is pushed, changed back, failing and waiting, by root cause",
		Long: `Show for each partition, or for the one that is named, what is pushed, which rollouts
are under way, what something else keeps changing back, what fails, and what waits. Each
root cause has a line with how many assets it holds up, since when, and one of them. In a
terminal, the list is shown again every two seconds until you interrupt it. lehr why
PARTITION shows who or what holds assets up, what would end it, and the chains.`,
		Example: `  lehr top
  lehr top --every 10s
  lehr top --once         # for scripts; so is any output that is no terminal
  lehr top -o wide        # causes in full, however wide the terminal is`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			isEverySet := command.Flags().Changed("every")
			switch {
			case once && isEverySet:
				return fault.New(fault.Invalid, "--once and --every contradict each other").WithHint("leave one of them out")
			case isEverySet && every <= 0:
				return fault.New(fault.Invalid, "--every %s is no pause", every).WithHint("write --every 2s, or --once")
			case once || !isEverySet && (s.json() || !terminal(s.Out)):
				every = 0
			}
			c, err := s.connectOrRead(command.Context())
			if err != nil {
				return err
			}
			return s.top(command.Context(), c, every)
		},
	}
	command.Flags().DurationVar(&every, "every", usualEvery, "in a terminal, show it again this often")
	command.Flags().BoolVar(&once, "once", false, "show it once")
	return command
}

// usualEvery is how often a terminal is written anew.
const usualEvery = 2 * time.Second

// terminal reports whether somebody sees what is written.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	nowhere, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, nowhere)
}

// room is how long a line may be: as wide as the terminal is. Where there is none, or with
// -o wide, nothing is cut.
func (s *session) room() int {
	if s.output == "wide" {
		return math.MaxInt
	}
	if file, ok := s.Out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			return max(int(size.Col), columns)
		}
	}
	return math.MaxInt
}

func (s *session) top(ctx context.Context, c *client.Client, every time.Duration) error {
	for {
		views, err := s.views(ctx, c)
		if err != nil {
			return err
		}
		switch {
		case s.json():
			err = printJSON(s.Out, views)
		default:
			if every > 0 {
				fmt.Fprint(s.Out, clearScreen)
			}
			s.printViews(views, s.room())
		}
		if err != nil || every <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

const clearScreen = "\x1b[H\x1b[2J"

// view is what goes on in a partition.
type view struct {
	Partition string           `json:"partition"`
	Head      string           `json:"head"`
	Mode      string           `json:"mode"`
	States    map[string]int64 `json:"states"`
	// Refused says why the newest sources are not served.
	Refused string   `json:"refused,omitempty"`
	Moving  []moving `json:"moving"`
	// Rollouts are those under way.
	Rollouts []rolling `json:"rollouts"`
	Causes   []cause   `json:"causes"`
	// Followed is how many that wait were followed to their causes, where there are
	// more.
	Followed int64 `json:"followed,omitempty"`
}

// moving are assets that are pushed to one incarnation.
type moving struct {
	Target string `json:"target"`
	Assets int64  `json:"assets"`
	// Example began first, Since then.
	Example string    `json:"example"`
	Push    string    `json:"push"`
	Since   time.Time `json:"since"`
}

// rolling is a run of a rollout under way.
type rolling struct {
	Name   string    `json:"name"`
	Run    uint64    `json:"run"`
	State  string    `json:"state"`
	Brings string    `json:"brings"`
	Done   int64     `json:"done"`
	Assets int64     `json:"assets"`
	Since  time.Time `json:"since"`
	Waits  string    `json:"waits,omitempty"`
}

// cause is why assets are not in sync: what lehr why PARTITION says, in one line.
type cause struct {
	Sort string `json:"sort"`
	Kind string `json:"kind"`
	// Assets that it holds up; 0: all. At most ten are named.
	Assets int64    `json:"assets"`
	Names  []string `json:"names,omitempty"`
	// Root is the asset that says it; empty: the partition.
	Root    string     `json:"root,omitempty"`
	Example string     `json:"example,omitempty"`
	Summary string     `json:"summary"`
	Owner   string     `json:"owner,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
}

func (s *session) views(ctx context.Context, c *client.Client) ([]view, error) {
	response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return nil, err
	}
	views := []view{}
	for _, p := range response.Partitions {
		if s.partition != "" && s.partition != p.Id {
			continue
		}
		v, err := viewOf(ctx, c, p)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	if len(views) == 0 && s.partition != "" {
		_, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: s.partition})
		return views, err
	}
	return views, nil
}

func viewOf(ctx context.Context, c *client.Client, p *apipb.Partition) (view, error) {
	v := view{Partition: p.Id, Head: p.Head, Mode: p.Mode, States: p.States, Moving: []moving{}, Rollouts: []rolling{}, Causes: []cause{}}
	if p.BlockedBy != nil {
		v.Refused = fmt.Sprintf("candidate %s is %s", p.BlockedBy.Id, p.BlockedBy.State)
	}
	pushing, err := c.Reports.ListReports(ctx, &apipb.ListReportsRequest{Partition: p.Id, State: string(intent.StatePushing), Limit: mostMoving})
	if err != nil {
		return v, err
	}
	v.Moving = movingOf(pushing.Reports)
	rollouts, err := c.Rollouts.ListRollouts(ctx, &apipb.ListRolloutsRequest{Partition: p.Id})
	if err != nil {
		return v, err
	}
	v.Rollouts = append(v.Rollouts, rollingOf(rollouts.Rollouts)...)
	if p.Head == "" && len(p.States) == 0 {
		return v, nil
	}
	explanation, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: p.Id, Subject: "partition"})
	if err != nil {
		return v, err
	}
	v.Followed = explanation.Followed
	for _, entry := range explanation.Causes {
		root := entry.Root
		v.Causes = append(v.Causes, cause{
			Sort: entry.Sort, Kind: root.GetKind(), Assets: entry.Assets, Names: entry.Names, Root: root.GetAsset(), Example: entry.Example,
			Summary: entry.Summary, Owner: root.GetOwner(), Since: timeOf(root.GetSince()), Until: timeOf(root.GetUntil()),
		})
	}
	return v, nil
}

// mostMoving assets that are pushed are read of a partition.
const mostMoving = 1000

// movingOf puts those together that are pushed to one incarnation.
func movingOf(pushing []*apipb.Report) []moving {
	list := []moving{}
	for _, r := range pushing {
		at := slices.IndexFunc(list, func(m moving) bool { return m.Target == r.Target })
		if at < 0 {
			at, list = len(list), append(list, moving{Target: r.Target})
		}
		m := &list[at]
		if m.Assets++; m.Assets == 1 || r.At.AsTime().Before(m.Since) {
			m.Example, m.Push, m.Since = r.Asset, r.Push, r.At.AsTime()
		}
	}
	slices.SortStableFunc(list, func(a, b moving) int { return cmp.Compare(b.Assets, a.Assets) })
	return list
}

// rollingOf lists the runs that go on.
func rollingOf(rollouts []*apipb.Rollout) (list []rolling) {
	for _, r := range rollouts {
		run := r.GetRun()
		if !goesOn(run) {
			continue
		}
		entry := rolling{Name: r.Name, Run: run.Run, State: run.State, Brings: brings(run), Since: run.Began.AsTime(), Waits: run.Waits}
		for _, stage := range run.Stages {
			entry.Done, entry.Assets = entry.Done+stage.Done, entry.Assets+stage.Total
		}
		list = append(list, entry)
	}
	return list
}

// words are a run in one line.
func (r rolling) words() string {
	text := fmt.Sprintf("%s to %s, %d done", r.State, r.Brings, r.Done)
	if r.Waits != "" {
		waits := r.Waits
		if strings.HasPrefix(waits, "for ") {
			waits = "waits " + waits
		}
		text = waits + "; " + text // What is in the way stays when the line is cut.
	}
	return fmt.Sprintf("%s run %d: %s", r.Name, r.Run, text)
}

func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

func (s *session) printViews(views []view, room int) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintln(s.Out, shorten(fmt.Sprintf("%s: head %s, mode %s: %s", v.Partition, cmp.Or(v.Head, "none"), cmp.Or(v.Mode, "none"), cmp.Or(states(v.States), "nothing was looked at")), room))
		if v.Refused != "" {
			fmt.Fprintln(s.Out, shorten("  the newest sources are not served: "+plain(v.Refused), room))
		}
		s.printLines(v, room)
		if v.Followed > 0 {
			fmt.Fprintf(s.Out, "Of all that wait the first %d were followed: the counts are of these.\n", v.Followed)
		}
	}
	if len(views) == 0 {
		fmt.Fprintln(s.Out, "No partition is registered.")
	}
}

// mostLines of a partition are shown.
const mostLines = 20

// printLines prints a line for each cause, what moves first.
func (s *session) printLines(v view, room int) {
	if len(v.Moving)+len(v.Rollouts)+len(v.Causes) == 0 {
		return
	}
	lines := []string{fmt.Sprintf("  %-8s %7s %6s  %s", "WHAT", "ASSETS", "FOR", "CAUSE (SUCH AS)")}
	add := func(kind string, assets int64, since *time.Time, text, example string) {
		many, age := "all", "-"
		if assets > 0 {
			many = fmt.Sprint(assets)
		}
		if since != nil {
			age = short(s.now().Sub(*since))
		}
		line := fmt.Sprintf("  %-8s %7s %6s  ", kind, many, age)
		width := room - len(line)
		text = exampled(plain(text), plain(example), min(width, math.MaxInt/mostWrapped)*mostWrapped)
		lines = append(lines, line+strings.Join(wrapped(text, width), "\n"+strings.Repeat(" ", len(line))))
	}
	for _, m := range v.Moving {
		add("moving", m.Assets, &m.Since, "pushed to "+m.Target, m.Example)
	}
	for _, r := range v.Rollouts {
		add("rollout", r.Assets, &r.Since, r.words(), "")
	}
	for _, c := range v.Causes {
		example := c.Example
		if example == c.Root {
			example = ""
		}
		// How many it is of each by itself stands before it.
		add(c.Sort, c.Assets, c.Since, strings.TrimPrefix(c.Summary, fmt.Sprintf("each of %d by itself, such as ", c.Assets)), example)
	}
	fmt.Fprintln(s.Out)
	for _, line := range lines[:min(len(lines), mostLines+1)] {
		fmt.Fprintln(s.Out, line)
	}
	if rest := len(lines) - mostLines - 1; rest > 0 {
		fmt.Fprintf(s.Out, "  … and %d more: lehr why %s has all.\n", rest, v.Partition)
	}
}

// mostWrapped lines are taken by the cause of one row.
const mostWrapped = 3

// wrapped breaks a text between its words, or within one that is longer than a line. What
// does not fit into the last line is cut.
func wrapped(text string, width int) (lines []string) {
	rest := []rune(text)
	for len(rest) > width && len(lines) < mostWrapped-1 {
		end, next := width, width
		if space := lastIndex(rest[:width+1], ' '); space > 0 {
			end, next = space, space+1
		}
		lines = append(lines, string(rest[:end]))
		rest = rest[next:]
	}
	return append(lines, shorten(string(rest), width))
}

func lastIndex(runes []rune, wanted rune) int {
	for i, r := range slices.Backward(runes) {
		if r == wanted {
			return i
		}
	}
	return -1
}

// exampled is a text with an example behind it, which stays on one line when the text is cut.
func exampled(text, example string, room int) string {
	if example == "" {
		return shorten(text, room)
	}
	example = " (" + shorten(example, room/mostWrapped-len("()")) + ")"
	return shorten(text, room-len([]rune(example))) + example
}

// shorten shortens what lehr why has whole.
func shorten(text string, room int) string {
	if runes := []rune(text); len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}

// cut is within a line of a table.
func cut(text string) string { return shorten(text, 120) }
