import type { ConcurrentRequests } from '../routes/route.ts'
import type { Delivery } from './delivery.ts'

/**
 * The deliveries of one pull, of which only the first one is served: messages carry no ids, so that those of
 * two requests must not be interleaved. By the route's policy the others wait, or the newest replaces all
 * others. The third policy, `refuse`, rejects a push when it begins, and has no effect here.
 */
export class DeliveryOrder {
  readonly #maxWaiting: number
  #line: Delivery[] = []

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  /** The delivery that has its turn. */
  get first(): Delivery | undefined {
    return this.#line[0]
  }

  /** All deliveries, in the order in which they are served. */
  get all(): readonly Delivery[] {
    return this.#line
  }

  /**
   * Adds a delivery after the others.
   *
   * @returns the deliveries that it displaced before they began, and the one that it supersedes, which keeps
   *   its turn for one more status
   */
  add(delivery: Delivery, policy: ConcurrentRequests): Displaced {
    const line = this.#line
    const running = line[0]?.begun === true ? 1 : 0
    const excess = Math.max(0, line.length - this.#maxWaiting)
    const dropped = policy === 'newest' ? line.splice(running) : line.splice(1, excess)
    line.push(delivery)
    return { superseded: policy === 'newest' ? line.slice(0, running)[0] : undefined, dropped }
  }

  /**
   * Begins the turn of the first delivery whose request has a place for a consumer. Closes, removes and
   * returns those before it.
   */
  beginFirst(): readonly Delivery[] {
    const leftOut: Delivery[] = []
    for (let { first } = this; first !== undefined && !first.takeTurn(); { first } = this) {
      leftOut.push(first)
      first.close('too many consumers')
      this.remove(first)
    }
    return leftOut
  }

  remove(delivery: Delivery): void {
    this.#line = this.#line.filter(other => other !== delivery)
  }

  clear(): readonly Delivery[] {
    return this.#line.splice(0)
  }
}

interface Displaced {
  readonly superseded: Delivery | undefined
  readonly dropped: readonly Delivery[]
}
