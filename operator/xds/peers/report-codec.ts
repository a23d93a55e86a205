import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type Client,
  ReportRequestSchema,
  type ReportResponse,
  ReportResponseSchema,
  type Standing as StandingMessage,
} from '@tollway/proto/tollway/operator/v1/acknowledgements'
import { type FeedClient, maxWorkers } from '../standing.ts'
import type { PeerReport, ReportedStanding } from './peer-table.ts'

export const reportPath = '/tollway.operator.v1.AcknowledgementService/Report'

/** A standing on its way: times of one process mean nothing to another, an age does. */
export interface AgedStanding extends Omit<ReportedStanding, 'openedMs'> {
  readonly openedMsAgo: number
}

export interface AgedReport extends Omit<PeerReport, 'standings'> {
  readonly standings: readonly AgedStanding[]
}

/** For who receives reports. */
export const reportCodec: Codec<AgedReport, { readonly received: number }> = {
  decode: decodeReport,
  encode: ({ received }) =>
    toBinary(ReportResponseSchema, create(ReportResponseSchema, { received: BigInt(received) })),
}

/** For who sends them. */
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
      standings: report.standings.map(({ client, openedMsAgo, refusals, ...same }) => ({
        ...same,
        client: encodeClient(client),
        openedMsAgo: BigInt(Math.round(openedMsAgo)),
        refusals: Array.from(refusals, ([name, refusal]) => ({ name, ...refusal })),
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
    standings: request.standings.map(decodeStanding),
    forgottenClients: request.forgotten.map(({ typeUrl, clientId }) => ({ typeUrl, clientId })),
    forgottenVersions: request.forgottenVersions,
    isTableComplete: request.tableComplete,
  }
}

function decodeStanding(message: StandingMessage): AgedStanding {
  const { typeUrl, version, connected, carriesOver, openedMsAgo, client, refusals } = message
  return {
    ...{ typeUrl, version, connected, carriesOver },
    openedMsAgo: Number(openedMsAgo),
    client: decodeClient(client),
    refusals: new Map(refusals.map(({ name, hash, message }) => [name, { hash, message }])),
  }
}

function decodeClient(client: Client | undefined): FeedClient {
  const { uid = '', pod = '', namespace = '', nodeId = '', peer = '', worker = 0, workers = 0 } = client ?? {}
  const { features = [] } = client ?? {}
  const hasWorkers = worker < workers && workers <= maxWorkers
  const known = { uid, pod, namespace, nodeId, peer, features }
  return hasWorkers ? { ...known, worker: { index: worker, of: workers } } : known
}
