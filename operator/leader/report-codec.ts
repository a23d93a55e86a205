import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type AcknowledgementReceipt,
  AcknowledgementReceiptSchema,
  AcknowledgementReportSchema,
  type FeedClient as FeedClientMessage,
  type FeedClientState,
} from '@tollway/proto/tollway/operator/v1/leader'
import { type FeedClient, maxWorkers } from '../xds/client-state.ts'
import type { PeerReport, ReportedClientState } from './peer-table.ts'

/**
 * The state of a client in a report. It has the age of the stream instead of a time, because monotonic clocks
 * of processes differ.
 */
export interface AgedClientState extends Omit<ReportedClientState, 'openedMs'> {
  readonly openedMsAgo: number
}

export interface AgedReport extends Omit<PeerReport, 'clientStates'> {
  readonly clientStates: readonly AgedClientState[]
}

export const reporterCodec: Codec<AcknowledgementReceipt, AgedReport> = {
  encode: encodeReport,
  decode: bytes => fromBinary(AcknowledgementReceiptSchema, bytes),
}

export const encodeReceipt = (received: number) =>
  toBinary(AcknowledgementReceiptSchema, create(AcknowledgementReceiptSchema, { received: BigInt(received) }))

function encodeReport(report: AgedReport): Uint8Array {
  return toBinary(
    AcknowledgementReportSchema,
    create(AcknowledgementReportSchema, {
      reporter: report.reporter,
      contents: report.contents.map(({ version, resources }) => ({
        version,
        resources: Array.from(resources, ([name, hash]) => ({ name, hash })),
      })),
      states: report.clientStates.map(({ client, openedMsAgo, rejections, ...same }) => ({
        ...same,
        client: encodeClient(client),
        openedMsAgo: BigInt(Math.round(openedMsAgo)),
        rejections: Array.from(rejections, ([name, rejection]) => ({ name, ...rejection })),
      })),
      forgottenClients: [...report.forgottenClients],
      forgottenVersions: [...report.forgottenVersions],
      tableComplete: report.isTableComplete,
    }),
  )
}

function encodeClient({ worker, ...client }: FeedClient) {
  return { ...client, features: [...client.features], worker: worker?.index ?? 0, workers: worker?.of ?? 0 }
}

export function decodeReport(bytes: Uint8Array): AgedReport {
  const request = fromBinary(AcknowledgementReportSchema, bytes)
  return {
    reporter: request.reporter,
    contents: request.contents.map(({ version, resources }) => ({
      version,
      resources: new Map(resources.map(({ name, hash }) => [name, hash])),
    })),
    clientStates: request.states.map(decodeClientState),
    forgottenClients: request.forgottenClients.map(({ typeUrl, clientId }) => ({ typeUrl, clientId })),
    forgottenVersions: request.forgottenVersions,
    isTableComplete: request.tableComplete,
  }
}

function decodeClientState(message: FeedClientState): AgedClientState {
  const { typeUrl, version, connected, carriesOver, openedMsAgo, client, rejections } = message
  return {
    typeUrl,
    version,
    connected,
    carriesOver,
    openedMsAgo: Number(openedMsAgo),
    client: decodeClient(client),
    rejections: new Map(rejections.map(({ name, hash, message }) => [name, { hash, message }])),
  }
}

function decodeClient(client: FeedClientMessage | undefined): FeedClient {
  const { uid = '', pod = '', namespace = '', nodeId = '', peer = '', worker = 0, workers = 0 } = client ?? {}
  const { features = [] } = client ?? {}
  const hasWorkers = worker < workers && workers <= maxWorkers
  const known = { uid, pod, namespace, nodeId, peer, features }
  return hasWorkers ? { ...known, worker: { index: worker, of: workers } } : known
}

/** @throws GrpcError INVALID_ARGUMENT */
export async function* decodeEach<Message>(
  messages: AsyncIterable<Uint8Array>,
  decode: (bytes: Uint8Array) => Message,
): AsyncGenerator<Message> {
  for await (const bytes of messages) {
    let message: Message
    try {
      message = decode(bytes)
    } catch (error) {
      throw new GrpcError('INVALID_ARGUMENT', `decode a message: ${(error as Error).message}`)
    }
    yield message
  }
}
