import type { ClientState } from '../client-state.ts'

/** The content of a report. A table may arrive in several reports. */
export interface PeerReport {
  /** The identity of the operator; empty except in the first report of a stream. */
  readonly reporter: string
  /** The resources of each version that a client enforces, with their hashes. Those of a version add up. */
  readonly contents: readonly { readonly version: string; readonly resources: ReadonlyMap<string, string> }[]
  readonly clientStates: readonly ReportedClientState[]
  readonly forgottenClients: readonly ClientKey[]
  readonly forgottenVersions: readonly string[]
  /** Whether the table as of the begin of the stream was received completely. */
  readonly isTableComplete: boolean
}

export interface ClientKey {
  readonly typeUrl: string
  readonly clientId: string
}

/** `version` is that of contents that were reported before, or empty when nothing is in force. */
export interface ReportedClientState extends Omit<ClientState, 'inForce'> {
  readonly typeUrl: string
  readonly version: string
}

/** A report that no operator sends. */
export class PeerReportError extends Error {
  override readonly name = 'PeerReportError'
}
