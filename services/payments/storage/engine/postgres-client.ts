import pg from 'pg'

type Connected = (error: Error | null) => void

/**
 * A connection of the driver's pool. The constructor of the driver reads the certificate files of the URL,
 * so each new connection uses the present files. When it throws, as for a missing file, the pool would lose
 * the waiting request, and throw in the callers that return a connection: here `connect` fails instead.
 */
export class PostgresClient extends pg.Client {
  readonly #problem: Error | undefined

  constructor(config: pg.ClientConfig = {}) {
    const problem = problemOf(config)
    super(problem === undefined ? config : {})
    this.#problem = problem
  }

  override connect(): Promise<pg.Client>
  override connect(connected: Connected): void
  override connect(connected?: Connected): Promise<pg.Client> | undefined {
    const problem = this.#problem
    if (connected === undefined) return problem ? Promise.reject(problem) : super.connect()
    if (problem) process.nextTick(connected, problem)
    else super.connect(connected)
    return undefined
  }
}

function problemOf(config: pg.ClientConfig): Error | undefined {
  try {
    new pg.Client(config)
    return undefined
  } catch (error) {
    return error as Error
  }
}
