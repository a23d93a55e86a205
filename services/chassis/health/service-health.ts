/**
 * The health of a service's process: healthy from `serve` to `terminate`, unless a part of the service has a
 * problem.
 */
export class ServiceHealth {
  readonly #findProblem: (isServing: boolean) => string
  readonly #listeners: ((healthy: boolean) => void)[] = []
  #isServing = false
  #isTerminating = false
  #isClosed = false
  #last = false

  /**
   * @param findProblem returns the problem of the service's parts, empty if there is none; never empty while
   *   `isServing` is false
   */
  constructor(findProblem: (isServing: boolean) => string) {
    this.#findProblem = findProblem
  }

  get healthy(): boolean {
    return this.problem === ''
  }

  /** Why the process is unhealthy, in a few words; empty when it is healthy. */
  get problem(): string {
    return this.#isTerminating ? 'is ending' : this.#findProblem(this.#isServing)
  }

  /** Why the process accepts no calls; empty when it does. A shutdown counts only from `close` on. */
  get acceptProblem(): string {
    return this.#isClosed ? 'is ending' : this.#findProblem(this.#isServing)
  }

  get terminating(): boolean {
    return this.#isTerminating
  }

  /** Adds a listener. It is called with the current state at once, and with each new state. */
  onChange(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
    listener(this.healthy)
  }

  /** Records that the ports for calls are open. */
  serve(): void {
    this.#isServing = true
    this.check()
  }

  /** Records that the process is shutting down. It accepts calls until `close`. */
  terminate(): void {
    this.#isTerminating = true
    this.check()
  }

  /** Records that the ports for calls are about to close. */
  close(): void {
    this.#isClosed = true
  }

  /** Notifies the listeners if the health has changed: for parts whose problem may have changed. */
  readonly check = (): void => {
    if (this.healthy === this.#last) return
    this.#last = this.healthy
    for (const listener of this.#listeners) listener(this.#last)
  }
}
