import type { RouteRules, RuleMode } from '../routes/route.ts'
import type { Message } from '../wire/message.ts'
import { createAudioRule } from './audio.ts'
import { createCountsRule } from './counts.ts'
import { createOrderRule } from './order.ts'
import type { Rule } from './rule.ts'
import { createTimeCodesRule } from './time-codes.ts'

export const ruleNames = ['order', 'timeCodes', 'counts', 'audio'] as const
export type RuleName = (typeof ruleNames)[number]

/** One rule that one message breaks. */
export interface Violation {
  readonly rule: RuleName
  /** The mode of the rule in the route. Rules that are off are not checked. */
  readonly mode: Exclude<RuleMode, 'off'>
  /** Counts the request's messages from 0, the header. */
  readonly messageNumber: number
  /**
   * The number of violations of this rule in the request, including this one. A rule in mode `warn` is
   * reported at its first violation only; `summary` at the end has the others.
   */
  readonly nth: number
  /** One line for people: the rule, the number of the message, the found and the allowed values. */
  readonly text: string
}

/** Checks the messages of one request, in their order. */
export interface StreamRules {
  /** The violations of the message: at most one of each rule. `number` counts the messages from 0. */
  judge(message: Message, number: number): readonly Violation[]
  /** The violations of a request that ends here after `number` messages. Their message number is `number`. */
  end(number: number): readonly Violation[]
  /** The state that `restore` needs to continue, as JSON. */
  save(): SavedRules
  /**
   * Sets the state that `save` returned, for a request that continues at another broker with the same rules
   * and modes. Call it after `judge` of the header.
   */
  restore(saved: SavedRules): void
  /** All violations so far in one line for people, `timeCodes ×12, counts ×3`; empty if there are none. */
  summary(): string
}

/** The number of violations and the state of each active rule. */
export type SavedRules = readonly (readonly [name: RuleName, broken: number, saved: unknown])[]

/** The rules of the specification, in the modes of the route. */
export function createStreamRules(rules: RouteRules): StreamRules {
  const judged = ruleNames.flatMap(name => {
    const mode = rules[name]
    return mode === 'off' ? [] : [{ name, mode, rule: createRule(name, rules), broken: 0 }]
  })

  function collect(number: number, ask: (rule: Rule) => string | undefined): readonly Violation[] {
    let violations: Violation[] | undefined
    for (const entry of judged) {
      const found = ask(entry.rule)
      if (found === undefined) continue
      entry.broken += 1
      violations ??= []
      violations.push({
        rule: entry.name,
        mode: entry.mode,
        messageNumber: number,
        nth: entry.broken,
        text: `${entry.name} #${number}: ${found}`,
      })
    }
    return violations ?? noViolations
  }

  return {
    judge: (message, number) => collect(number, rule => rule.judge(message, number)),
    end: number => collect(number, rule => rule.end?.()),
    save: () => judged.map(({ name, broken, rule }) => [name, broken, rule.save?.()] as const),
    restore(saved) {
      for (const [name, broken, ofRule] of saved) {
        const entry = judged.find(other => other.name === name)
        if (entry === undefined) continue
        entry.broken = broken
        if (ofRule !== undefined && ofRule !== null) entry.rule.restore?.(ofRule)
      }
    },
    summary() {
      const broken = judged.filter(entry => entry.broken > 0)
      return broken.map(entry => `${entry.name} ×${entry.broken}`).join(', ')
    },
  }
}

const noViolations: readonly Violation[] = []

function createRule(name: RuleName, { audioFormats }: RouteRules): Rule {
  switch (name) {
    case 'order':
      return createOrderRule()
    case 'timeCodes':
      return createTimeCodesRule()
    case 'counts':
      return createCountsRule()
    case 'audio':
      return createAudioRule(audioFormats)
  }
}
