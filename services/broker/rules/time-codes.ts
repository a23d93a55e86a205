import type { Disorder, SkelAnimation } from '../wire/message.ts'
import type { Rule } from './rule.ts'

const lists = ['weights', 'translations', 'rotations', 'scales'] as const

interface End {
  readonly number: number
  readonly latest: number
}

/**
 * Time codes of skeletal animation are finite and increase strictly in each list, and a message begins after
 * the end of the message before. A message lasts from its earliest to its latest time code in all four lists.
 * The next message is also compared with a message that breaks the rule: a producer that jumps once gets one
 * violation ("Limits" of the specification).
 */
export function createTimeCodesRule(): Rule {
  let before: End | undefined

  return {
    judge(message, number) {
      if (message.part !== 'data' || message.skelAnimation === undefined) return undefined
      const { earliest, latest } = message.skelAnimation
      const found = disorderOf(message.skelAnimation)
      const overlap = earliest === undefined ? undefined : overlapOf(earliest, before)
      if (latest !== undefined) before = { number, latest }
      return found ?? overlap
    },
    save: () => before,
    restore(saved) {
      const { number, latest } = saved as { number: number; latest: number | null }
      // JSON has no infinite numbers.
      before = latest === null ? undefined : { number, latest }
    },
  }
}

function disorderOf(skel: SkelAnimation): string | undefined {
  for (const name of lists) {
    const disorder = skel[name]?.disorder
    if (disorder !== undefined) return `${name}: ${describeDisorder(disorder)}`
  }
  return undefined
}

function overlapOf(earliest: number, before: End | undefined): string | undefined {
  if (before === undefined || earliest > before.latest) return undefined
  return `${earliest} is found, more than ${before.latest} is allowed, where message ${before.number} ended`
}

function describeDisorder({ found, previous }: Disorder): string {
  if (!Number.isFinite(found)) return `${found} is found, a finite number is allowed`
  return `${found} is found after ${previous}, more than that is allowed`
}
