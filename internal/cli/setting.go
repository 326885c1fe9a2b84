package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
)

// setting is a flag that all commands have. A variable may stand for it.
type setting string

const (
	settingStore     setting = "store"
	settingDatabase  setting = "database"
	settingServer    setting = "server"
	settingPartition setting = "partition"
	settingOutput    setting = "output"
	settingJSON      setting = "json"
)

// settings are all of them, in the order of the help.
var settings = []setting{settingStore, settingDatabase, settingServer, settingPartition, settingOutput, settingJSON}

func (s setting) variable() string {
	switch s {
	case settingStore, settingDatabase, settingServer, settingPartition:
		return "LEHR_" + strings.ToUpper(string(s))
	}
	return ""
}

// obedience says which settings a command obeys. A flag of the others is refused: a
// flag that is ignored looks as if it had narrowed what is done.
type obedience struct {
	obeys []setting
	// refuses are settings whose variables are refused too: the command acts on more
	// than they name. Of any other command a variable is a default of a flag that the
	// command does not have.
	refuses []setting
	// alternatives says what to do where a flag is refused.
	alternatives map[setting]string
}

func obeying(groups ...[]setting) obedience { return obedience{obeys: slices.Concat(groups...)} }

var (
	ofPlaces    = []setting{settingStore, settingDatabase, settingServer}
	ofStores    = []setting{settingStore, settingDatabase}
	ofPartition = []setting{settingPartition}
	ofOutput    = []setting{settingOutput, settingJSON}

	// inPartition is what most commands obey: they ask a server of one partition, and
	// show what it answers.
	inPartition = obeying(ofPlaces, ofPartition, ofOutput)
)

// onWholeStore is of commands that work on all of a store, without its server.
func onWholeStore(groups ...[]setting) obedience {
	whole := "it works on the whole store: leave the partition out"
	return obedience{
		obeys: slices.Concat(append(groups, ofOutput)...), refuses: []setting{settingServer, settingPartition},
		alternatives: map[setting]string{settingPartition: whole, settingServer: "it works on the store itself, beside its server: name it with --store or --database"},
	}
}

// onDefinition is of commands that build a definition here; documents are asked of a
// server.
func onDefinition(name string) obedience {
	return obedience{
		obeys:        slices.Concat(ofPlaces, ofOutput),
		alternatives: map[setting]string{settingPartition: "-p names a partition of a server, and it asks none: write lehr " + name + " lehr.yaml"},
	}
}

// obediences has all commands, by their paths. One that is not here obeys nothing:
// TestEverySettingIsObeyedOrRefused holds the list to the tree of commands.
var obediences = map[string]obedience{
	"init":              obeying(ofPartition, ofOutput),
	"import":            obeying(),
	"import *":          obeying(ofPartition, ofOutput),
	"build":             onDefinition("build"),
	"lint":              onDefinition("lint"),
	"schema":            obeying(ofOutput), // Of which JSON is the only form.
	"plan":              inPartition,
	"serve":             obeying(ofStores, ofOutput),
	"partition":         obeying(),
	"partition add":     {obeys: slices.Concat(ofPlaces, ofOutput), alternatives: map[setting]string{settingPartition: "--name names the partition to register"}},
	"partition remove":  inPartition,
	"partition list":    inPartition,
	"policy":            obeying(),
	"policy show":       inPartition,
	"policy plan":       obeying(ofPlaces, ofOutput),
	"document":          obeying(),
	"document *":        inPartition,
	"kubernetes":        obeying(),
	"kubernetes rbac":   obeying(ofPlaces, ofOutput),
	"demo":              obeying(),
	"plugin":            obeying(),
	"plugin test":       obeying(ofOutput),
	"plugin new":        obeying(ofOutput),
	"plugin generate":   obeying(ofOutput),
	"sim":               obeying(ofOutput),
	"why":               inPartition,
	"timeline":          inPartition,
	"notify":            inPartition,
	"blame":             inPartition,
	"find":              inPartition,
	"where":             inPartition,
	"get":               inPartition,
	"describe":          inPartition,
	"watch":             inPartition,
	"top":               inPartition,
	"wait":              inPartition,
	"diff":              inPartition,
	"judge":             obeying(ofOutput),
	"workflow":          obeying(),
	"workflow *":        inPartition,
	"workflow check":    obeying(ofOutput),
	"workflow draw":     obeying(ofOutput),
	"audit":             obeying(),
	"audit verify":      {obeys: slices.Concat(ofStores, ofPartition, ofOutput), refuses: []setting{settingServer}, alternatives: map[setting]string{settingServer: "it reads the store itself: name it with --store or --database, or an exported audit with --file"}},
	"audit export":      obeying(ofPlaces, ofPartition),
	"audit checkpoint":  inPartition,
	"page":              obeying(ofPlaces, ofOutput),
	"export":            obeying(ofPlaces, ofPartition),
	"verify-export":     obeying(ofOutput),
	"blob":              obeying(ofPlaces, ofPartition),
	"stop":              inPartition,
	"resume":            inPartition,
	"hold":              inPartition,
	"unhold":            inPartition,
	"retry":             inPartition,
	"pin":               inPartition,
	"unpin":             inPartition,
	"delivery":          obeying(),
	"delivery *":        inPartition,
	"release":           obeying(),
	"release *":         inPartition,
	"rollout":           obeying(),
	"rollout *":         inPartition,
	"rollout record":    obeying(ofPlaces, ofPartition),
	"approve":           inPartition,
	"reject":            inPartition,
	"override":          inPartition,
	"disown":            inPartition,
	"turndown":          inPartition,
	"label":             inPartition,
	"auth":              obeying(),
	"auth login":        obeying([]setting{settingServer}, ofOutput),
	"auth logout":       obeying([]setting{settingServer}, ofOutput),
	"auth whoami":       obeying(ofPlaces, ofOutput),
	"auth can":          inPartition,
	"auth token":        obeying(),
	"auth token create": inPartition,
	"auth token list":   obeying(ofPlaces, ofOutput),
	"auth token revoke": obeying(ofPlaces, ofOutput),
	"backup":            onWholeStore(ofStores), // A database is refused there, with what copies it.
	"restore":           onWholeStore(ofStores),
	"store":             obeying(),
	"store adopt":       onWholeStore(ofStores),
	"store verify":      onWholeStore(ofStores),
	"debug":             obeying(),
	"debug bundle":      obeying(ofPlaces, ofOutput),
	"version":           obeying(ofPlaces, ofOutput),
}

// obedienceOf a command is that of its path, or of all in its family.
func obedienceOf(command *cobra.Command) obedience {
	path := commandPath(command)
	if entry, ok := obediences[path]; ok {
		return entry
	}
	family, _, _ := strings.Cut(path, " ")
	return obediences[family+" *"]
}

// commandPath is how a command is called, without the program's name.
func commandPath(command *cobra.Command) string {
	_, path, _ := strings.Cut(command.CommandPath(), " ")
	return path
}

// refuseIgnored refuses what names something that the command would not look at.
func (s *session) refuseIgnored(command *cobra.Command, args []string) error {
	rules := obedienceOf(command)
	if commandPath(command) == "workflow draw" && len(args) == 1 && namesRun(args[0]) {
		rules = inPartition // A run is asked of a server, a file is read here.
	}
	flags := command.Root().PersistentFlags()
	isGiven := func(name setting) bool { return flags.Changed(string(name)) }
	for _, name := range settings {
		flag := flags.Lookup(string(name))
		switch {
		case !isGiven(name):
		case !slices.Contains(rules.obeys, name) && !onlyTable(flag.Value.String(), name):
			return fault.New(fault.Invalid, "%s does nothing with --%s, and would ignore it", command.CommandPath(), name).
				WithHint("%s", cmp.Or(rules.alternatives[name], "leave it out"))
		case slices.Contains([]string{"", "[]"}, strings.TrimSpace(flag.Value.String())):
			return emptyFlag(string(name))
		}
	}
	named := isGiven(settingStore) || isGiven(settingDatabase) || s.Getenv("LEHR_STORE") != "" || s.Getenv("LEHR_DATABASE") != ""
	if file := command.Flags().Lookup("file"); file != nil && file.Changed && !slices.Contains(rules.obeys, settingServer) {
		named = true // An exported audit.
	}
	for _, name := range rules.refuses {
		if s.Getenv(name.variable()) == "" || name == settingServer && named {
			continue
		}
		return fault.New(fault.Invalid, "%s does nothing with %s, which is set, and would ignore it", command.CommandPath(), name.variable()).
			WithHint("%s, or empty the variable: %s= %s", cmp.Or(rules.alternatives[name], "leave it out"), name.variable(), command.CommandPath())
	}
	if slices.Contains(rules.obeys, settingServer) && s.Getenv("LEHR_SERVER") != "" && s.Getenv("LEHR_STORE") != "" && s.Getenv("LEHR_DATABASE") == "" &&
		!isGiven(settingServer) && !isGiven(settingStore) && !isGiven(settingDatabase) && s.local.Client == nil {
		return fault.New(fault.Invalid, "both a server and a store are named, by LEHR_SERVER and LEHR_STORE").
			WithHint("empty one of the variables, or name with --server or --store which is meant")
	}
	if err := refuseEmptyFlags(command); err != nil {
		return err
	}
	if err := refuseEmpty(command, args); err != nil || !isGiven(settingPartition) || !slices.Contains(rules.obeys, settingPartition) {
		return err
	}
	return s.refuseOther(command, args)
}

// identified is an incarnation or a candidate, by its whole id.
var identified = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]*)@(?:[0-9]+|~[0-9a-f]+)$`)

// refuseOther refuses incarnations of another partition than --partition names.
func (s *session) refuseOther(command *cobra.Command, args []string) error {
	named := slices.Clone(args)
	for _, flag := range []string{"incarnation", "at", "candidate", "after", "newer-than"} {
		if found := command.Flags().Lookup(flag); found != nil {
			named = append(named, found.Value.String())
		}
	}
	for _, name := range named {
		if id := identified.FindStringSubmatch(name); id != nil && id[1] != s.partition {
			return fault.New(fault.Invalid, "%s is of partition %s, and --partition names %s", name, id[1], s.partition).
				WithHint("leave out one of them")
		}
	}
	return nil
}

// onlyTable reports whether the output is that which every command has.
func onlyTable(value string, name setting) bool {
	return name == settingOutput && (value == "table" || value == "wide") || name == settingJSON && value == "false"
}

// narrowing flags choose among what a command would act on, or show, without them.
var narrowing = []string{
	"partition", "role", "plan", "candidate", "incarnation", "at", "label", "asset", "filter", "field", "refers-to", "prefix", "type", "state",
	"group", "actor", "since", "check", "as", "groups", "newer-than", "after",
}

// refuseEmptyFlags refuses one of them that names nothing: it would not narrow.
func refuseEmptyFlags(command *cobra.Command) error {
	for _, name := range narrowing {
		flag := command.Flags().Lookup(name)
		if flag == nil || !flag.Changed || !slices.Contains([]string{"string", "stringSlice"}, flag.Value.Type()) {
			continue
		}
		if slices.Contains([]string{"", "[]"}, strings.TrimSpace(flag.Value.String())) {
			return emptyFlag(name)
		}
	}
	return nil
}

func emptyFlag(name string) error {
	return fault.New(fault.Invalid, "--%s is given, and names nothing", name).
		WithHint("give it a value, or leave it out: is a variable of the shell empty?")
}

// refuseEmpty refuses an argument that names nothing, as that of a shell's empty
// variable, which would mean all to some commands.
func refuseEmpty(command *cobra.Command, args []string) error {
	family, _, _ := strings.Cut(commandPath(command), " ")
	if family == "plugin" || family == "document" {
		return nil // What follows is a program's, or a path or value, which says itself what is wrong.
	}
	for i, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return fault.New(fault.Invalid, "argument %d of %s is empty", i+1, command.CommandPath()).
				WithHint("give it a value, or leave it out: is a variable of the shell empty?")
		}
	}
	return nil
}

// namedPartition is the partition that an argument names. Where --partition names
// another it is refused; a variable that does is passed over.
func (s *session) namedPartition(argument string) (string, error) {
	if s.partitionGiven && argument != s.partition {
		return "", fault.New(fault.Invalid, "both partition %s and partition %s are named", argument, s.partition).
			WithHint("leave out --partition, or the argument")
	}
	return argument, nil
}

// stoppedScope is what stop and resume are about: a partition, or "" for all.
// All is meant where nothing names one.
func (s *session) stoppedScope(args []string, all bool) (string, error) {
	switch {
	case all && (len(args) > 0 || s.partitionGiven):
		return "", fault.New(fault.Invalid, "both a partition and --all are named").WithHint("leave one of them out")
	case all:
		return "", nil
	case len(args) > 0:
		return s.namedPartition(args[0])
	}
	return s.partition, nil
}

// storePlace is the store to work on, without its server. What a flag names counts
// before what the environment does.
func (s *session) storePlace() StorePlace {
	if s.storeGiven && !s.databaseGiven {
		return StorePlace{Store: s.store}
	}
	return StorePlace{Store: s.store, Database: s.database}
}
