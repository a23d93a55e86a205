import { type ClientState, clientId, type HeldContents } from '../client-state.ts'
import { type ClientKey, type PeerReport, PeerReportError } from './peer-report.ts'
import type { PeerTableLimits } from './peer-table-limits.ts'

interface Contents extends HeldContents {
  readonly resources: Map<string, { readonly hash: string }>
}

type Limits = Pick<PeerTableLimits, 'maxClients' | 'maxResources'>

/** The clients that one stream of an operator has reported, and the contents that these acknowledged. */
export class ReportedTable {
  /** The state of each client, by `keyOf`. */
  readonly states = new Map<string, ClientState>()
  readonly #contents = new Map<string, Contents>()
  readonly #limits: Limits
  #resourceCount = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** @throws PeerReportError for a report that contradicts the earlier ones, or exceeds a limit */
  apply(report: PeerReport): void {
    for (const { version, resources } of report.contents) this.#addContents(version, resources)
    for (const { typeUrl, version, ...state } of report.clientStates) {
      const key = keyOf({ typeUrl, clientId: clientId(state.client) })
      this.states.set(key, { ...state, inForce: this.#contentsOf(version) })
    }
    for (const key of report.forgottenClients) this.states.delete(keyOf(key))
    for (const version of report.forgottenVersions) this.#forgetContents(version)
    const { maxClients } = this.#limits
    if (this.states.size > maxClients) throw new PeerReportError(`more than ${maxClients} clients`)
  }

  #contentsOf(version: string): Contents | undefined {
    if (version === '') return undefined
    const contents = this.#contents.get(version)
    if (contents) return contents
    throw new PeerReportError(`the contents of the version ${version} were not reported`)
  }

  #addContents(version: string, resources: ReadonlyMap<string, string>): void {
    const { maxResources } = this.#limits
    const contents = this.#contents.get(version) ?? { version, resources: new Map() }
    this.#contents.set(version, contents)
    this.#resourceCount -= contents.resources.size
    for (const [name, hash] of resources) contents.resources.set(name, { hash })
    this.#resourceCount += contents.resources.size
    if (this.#resourceCount > maxResources) throw new PeerReportError(`more than ${maxResources} resources`)
  }

  #forgetContents(version: string): void {
    this.#resourceCount -= this.#contents.get(version)?.resources.size ?? 0
    this.#contents.delete(version)
  }
}

export const keyOf = ({ typeUrl, clientId }: ClientKey) => JSON.stringify([typeUrl, clientId])
