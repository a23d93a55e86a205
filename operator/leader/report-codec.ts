import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type Client,
  ReportRequestSchema,
  type ReportResponse,
  ReportResponseSchema,
  type Standing as StandingMessage,
} from '@tollway/proto/tollway/operator/v1/acknowledgements'
import { type FeedClient, maxWorkers } from '../xds/client-state.ts'
import type { PeerReport, ReportedClientState } from './peer-table.ts'

export const reportPath = '/tollway.operator.v1.AcknowledgementService/Report'

/** A state in a report. It has an age, because other processes have another monotonic clock. */
export interface AgedClientState extends Omit<ReportedClientState, 'openedMs'> {
  readonly openedMsAgo: number
}

export interface AgedReport extends Omit<PeerReport, 'clientStates'> {
  readonly clientStates: readonly AgedClientState[]
}

/** The codec of the receiver of reports. */
export const reportCodec: Codec<AgedReport, { readonly received: number }> = {
  decode: decodeReport,
  encode: ({ received }) =>
    toBinary(ReportResponseSchema, create(ReportResponseSchema, { received: BigInt(received) })),
}

/** The codec of the sender of reports. */
export const reporterCodec: Codec<ReportResponse, AgedReport> = {
  encode: encodeReport,
  decode: bytes => fromBinary(ReportResponseSchema, bytes),
}

function encodeReport(report: AgedReport): Uint8Array {
  return toBinary(
    ReportRequestSchema,
    create(ReportRequestSchema, {
      reporter: report.reporter,
      contents: report.contents.map(({ version, resources }) => ({
        version,
        resources: Array.from(resources, ([name, hash]) => ({ name, hash })),
      })),
      standings: report.clientStates.map(({ client, openedMsAgo, rejections, ...same }) => ({
        ...same,
        client: encodeClient(client),
        openedMsAgo: BigInt(Math.round(openedMsAgo)),
        refusals: Array.from(rejections, ([name, rejection]) => ({ name, ...rejection })),
      })),
      forgotten: [...report.forgottenClients],
      forgottenVersions: [...report.forgottenVersions],
      tableComplete: report.isTableComplete,
    }),
  )
}

function encodeClient({ worker, ...client }: FeedClient) {
  return { ...client, features: [...client.features], worker: worker?.index ?? 0, workers: worker?.of ?? 0 }
}

function decodeReport(bytes: Uint8Array): AgedReport {
  const request = fromBinary(ReportRequestSchema, bytes)
  return {
    reporter: request.reporter,
    contents: request.contents.map(({ version, resources }) => ({
      version,
      resources: new Map(resources.map(({ name, hash }) => [name, hash])),
    })),
    clientStates: request.standings.map(decodeClientState),
    forgottenClients: request.forgotten.map(({ typeUrl, clientId }) => ({ typeUrl, clientId })),
    forgottenVersions: request.forgottenVersions,
    isTableComplete: request.tableComplete,
  }
}

function decodeClientState(message: StandingMessage): AgedClientState {
  const { typeUrl, version, connected, carriesOver, openedMsAgo, client, refusals } = message
  return {
    ...{ typeUrl, version, connected, carriesOver },
    openedMsAgo: Number(openedMsAgo),
    client: decodeClient(client),
    rejections: new Map(refusals.map(({ name, hash, message }) => [name, { hash, message }])),
  }
}

function decodeClient(client: Client | undefined): FeedClient {
  const { uid = '', pod = '', namespace = '', nodeId = '', peer = '', worker = 0, workers = 0 } = client ?? {}
  const { features = [] } = client ?? {}
  const hasWorkers = worker < workers && workers <= maxWorkers
  const known = { uid, pod, namespace, nodeId, peer, features }
  return hasWorkers ? { ...known, worker: { index: worker, of: workers } } : known
}
