// The reference rate limit service, pinned by go.mod, as one program for the differential tests: without
// arguments it serves, as its own service_cmd does; as `ratelimit-reference judge` it judges configurations.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
)

// One line of standard input: files that are loaded together.
type question struct {
	Files []struct {
		Name string
		Text []byte // base64 in JSON, so that a file may hold any bytes
	}
	Merge bool
}

// One line of standard output. Refused has the error of rejected files, Crashed that of a crash, and Rules the page
// /rlconfig.
type verdict struct {
	Refused string  `json:"refused,omitempty"`
	Crashed string  `json:"crashed,omitempty"`
	Rules   string  `json:"rules,omitempty"`
	TookMs  float64 `json:"tookMs"`
}

func main() {
	if len(os.Args) < 2 {
		service := runner.NewRunner(settings.NewSettings())
		service.Run()
		return
	}
	// In JSON, no byte of a file can be mistaken for the end of a line.
	input := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	output := json.NewEncoder(os.Stdout)
	for {
		var asked question
		if input.Decode(&asked) != nil {
			return
		}
		started := time.Now()
		answer := judge(asked)
		answer.TookMs = float64(time.Since(started).Microseconds()) / 1000
		output.Encode(answer)
	}
}

func judge(asked question) (answer verdict) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case config.RateLimitConfigError:
			answer.Refused = caught.Error()
		default:
			answer.Crashed = fmt.Sprint(caught)
		}
	}()
	var loaded []config.RateLimitConfigToLoad
	for _, file := range asked.Files {
		content := config.ConfigFileContentToYaml(file.Name, string(file.Text))
		loaded = append(loaded, config.RateLimitConfigToLoad{Name: file.Name, ConfigYaml: content})
	}
	store := gostats.NewStore(gostats.NewNullSink(), false)
	manager := stats.NewStatManager(store, settings.Settings{})
	answer.Rules = config.NewRateLimitConfigImpl(loaded, manager, asked.Merge).Dump()
	return
}
