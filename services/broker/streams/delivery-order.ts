import type { ConcurrentRequests } from '../routes/route.ts'
import type { Delivery } from './delivery.ts'

/**
 * The deliveries of one pull, served one at a time: messages carry no ids, so messages of two requests must
 * not be mixed. The policy of the route decides whether the other deliveries wait, or the newest replaces
 * them. A third policy, `refuse`, rejects a push when it begins, and has no effect here.
 */
export class DeliveryOrder {
  readonly #maxWaiting: number
  #queue: Delivery[] = []

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  get first(): Delivery | undefined {
    return this.#queue[0]
  }

  /** All deliveries, in the order in which they are served. */
  get all(): readonly Delivery[] {
    return this.#queue
  }

  /**
   * @returns the deliveries that were removed before they began, and the running delivery that is superseded,
   * which stays first for one more status
   */
  add(delivery: Delivery, policy: ConcurrentRequests): Displaced {
    const queue = this.#queue
    const running = queue[0]?.begun === true ? 1 : 0
    const excess = Math.max(0, queue.length - this.#maxWaiting)
    const dropped = policy === 'newest' ? queue.splice(running) : queue.splice(1, excess)
    queue.push(delivery)
    return { superseded: policy === 'newest' ? queue.slice(0, running)[0] : undefined, dropped }
  }

  /**
   * Begins the first delivery whose request may have another consumer. Closes and returns the deliveries
   * before it.
   */
  beginFirst(): readonly Delivery[] {
    const full: Delivery[] = []
    for (let { first } = this; first !== undefined && !first.beginServing(); { first } = this) {
      full.push(first)
      first.close('too many consumers')
      this.remove(first)
    }
    return full
  }

  remove(delivery: Delivery): void {
    this.#queue = this.#queue.filter(other => other !== delivery)
  }

  clear(): readonly Delivery[] {
    return this.#queue.splice(0)
  }
}

interface Displaced {
  readonly superseded: Delivery | undefined
  readonly dropped: readonly Delivery[]
}
