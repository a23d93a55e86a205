import { type OnAnswers, type Resend, resend, type Send } from '../../batching/send.ts'
import { CountersError } from '../../counters.ts'
import type { NodeAddress } from '../redis-address.ts'
import type { Follow, RedisNode } from '../redis-node.ts'
import type { RedisClusterNode } from './cluster-node.ts'
import { type Redirect, readRedirect } from './slot-owners.ts'

/** Ends a loop of two nodes that redirect to each other. */
const maxRedirects = 4

interface Step<Item, Answer> {
  readonly address: NodeAddress
  readonly send: Send<Item, Answer>
  readonly of: (node: RedisNode) => Send<Item, Answer>
  readonly hops: number
}

/**
 * Returns a function that creates a `Follow` for the node at an address. Each item that this node redirects
 * is sent to the node that the reply names, as soon as that one is connected.
 * `learn` records a redirect and returns the node that it names.
 */
export function createRedirects(
  learn: (redirect: Redirect) => RedisClusterNode,
): (address: NodeAddress) => Follow {
  function sendFollowing<Item, Answer>(
    step: Step<Item, Answer>,
    items: readonly Item[],
    onAnswers: OnAnswers<Answer>,
    asking = false,
  ): void {
    const { address, send, of, hops } = step
    send(
      items,
      (answers, missing) => {
        const parts: Resend<Item, Answer>[] = []
        const redirects = hops < maxRedirects ? redirectsIn(answers, address.host) : []
        for (const { redirect, positions } of redirects) {
          const node = learn(redirect)
          const next = { address: node.address, send: of(node), of, hops: hops + 1 }
          const sendThere: Send<Item, Answer> = (some, onSome) => {
            node.whenServing(() => sendFollowing(next, some, onSome, redirect.asking))
          }
          parts.push({ positions, send: sendThere })
        }
        if (parts.length === 0) onAnswers(answers, missing)
        else resend(items, answers, parts, all => onAnswers(all, missing))
      },
      asking,
    )
  }

  return address => (send, of) => (items, onAnswers) =>
    sendFollowing({ address, send, of, hops: 0 }, items, onAnswers)
}

interface RedirectedAnswers {
  readonly redirect: Redirect
  readonly positions: number[]
}

/** Returns the redirects among the answers, with the positions of the answers that have the same text. */
function redirectsIn(answers: readonly unknown[], askedHost: string): readonly RedirectedAnswers[] {
  const found = new Map<string, RedirectedAnswers>()
  for (const [position, answer] of answers.entries()) {
    if (!(answer instanceof CountersError)) continue
    const known = found.get(answer.message)
    if (known !== undefined) {
      known.positions.push(position)
      continue
    }
    const redirect = readRedirect(answer.message, askedHost)
    if (redirect !== undefined) found.set(answer.message, { redirect, positions: [position] })
  }
  return [...found.values()]
}
