// Porcupine-check reads histories of a counter, one JSON text a line, and writes whether each is linearizable.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Start float64 `json:"startMs"`
	// Missing if the outcome is unknown.
	End     *float64 `json:"endMs"`
	Hits    int      `json:"hits"`
	Outcome outcome  `json:"outcome"`
}

type outcome struct {
	Kind  string `json:"kind"`
	After int    `json:"after"`
}

type history struct {
	Limit      int         `json:"limit"`
	Operations []operation `json:"operations"`
}

func model(limit int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			after := state.(int) + input.(int)
			switch seen := output.(outcome); seen.Kind {
			case "admitted":
				return after == seen.After && after <= limit, after
			case "over":
				return after > limit, after
			}
			return true, after
		},
	}
}

func main() {
	decoder := json.NewDecoder(os.Stdin)
	for {
		var read history
		if err := decoder.Decode(&read); err == io.EOF {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		operations := []porcupine.Operation{}
		for client, each := range read.Operations {
			// A call without an answer may have its effect at any time, or after all others: then nobody sees it.
			end := int64(1) << 60
			if each.End != nil {
				end = int64(*each.End * 1e6)
			}
			operations = append(operations, porcupine.Operation{
				ClientId: client, Input: each.Hits, Call: int64(each.Start * 1e6), Output: each.Outcome, Return: end,
			})
		}
		fmt.Println(porcupine.CheckOperations(model(read.Limit), operations))
	}
}
