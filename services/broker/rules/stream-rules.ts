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
  /** What the route says of the rule. Rules that are off are not judged. */
  readonly mode: Exclude<RuleMode, 'off'>
  /** Counts the request's messages from 0, which is the header's number. */
  readonly messageNumber: number
  /**
   * How often this rule was broken in the request, this time included. Of a rule that only warns, the first
   * is the one to tell; for the others `summary` at the end is enough.
   */
  readonly nth: number
  /** One line for people: the rule, the message's number, what was found and what is allowed. */
  readonly text: string
}

/** Judges the messages of one request, in their order. */
export interface StreamRules {
  /** What the message breaks: at most one violation of each rule. `number` counts the messages from 0. */
  judge(message: Message, number: number): readonly Violation[]
  /** What the request breaks by ending here, `number` messages long. Its violation has the number of none. */
  end(number: number): readonly Violation[]
  /** What `restore` needs to judge the messages that follow, as JSON. */
  save(): SavedRules
  /**
   * Goes on behind the messages before `save`, in other rules of the same modes; called after the header was
   * judged.
   */
  restore(saved: SavedRules): void
  /** All violations so far in one line for people, `timeCodes ×12, counts ×3`; empty without any. */
  summary(): string
}

/** Of each rule that is judged: how often it was broken, and what it remembers. */
export type SavedRules = readonly (readonly [name: RuleName, broken: number, saved: unknown])[]

/** The rules of the specification, each as the route wants it. */
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
