import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import type { Clock } from '../../clock.ts'
import { type Log, silentLog } from '../../log/log.ts'
import { openTracing, type Tracing } from '../tracing.ts'
import type { TracingSettings } from '../tracing-settings.ts'

/** A span as received by a collector; ids are in hexadecimal. */
export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** `''` for a span without a parent. */
  readonly parentId: string
  readonly attributes: ReceivedAttributes
  readonly resource: ReceivedAttributes
  /** The code of OTLP: 0 unset, 2 error. */
  readonly statusCode: number
  readonly statusMessage: string
  readonly durationNs: bigint
}

export type ReceivedAttributes = Readonly<Record<string, string | number>>

export interface Collector {
  readonly url: string
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  readonly spans: readonly ReceivedSpan[]
}

/**
 * Starts a collector of OTLP over HTTP on the loopback address, until the test ends. A hanging collector
 * never answers.
 */
export async function startCollector(
  t: TestContext,
  { hangs = false, status = 200 }: { readonly hangs?: boolean; readonly status?: number } = {},
): Promise<Collector> {
  const requests: { path: string; headers: IncomingHttpHeaders }[] = []
  const spans: ReceivedSpan[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    requests.push({ path: request.url ?? '', headers: request.headers })
    spans.push(...decodeExportRequest(Buffer.concat(chunks)))
    if (!hangs) response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, requests, spans }
}

interface TracingTo extends TracingSettings {
  readonly log: Log
  readonly clock: Clock
}

/** Starts tracing that exports to this address, with fixed values for other settings. */
export async function openTracingTo(
  t: TestContext,
  endpoint: string,
  { log = silentLog, clock, ...settings }: Partial<TracingTo> = {},
): Promise<Tracing> {
  setEnvironment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
  const all: TracingSettings = {
    tracingEnabled: 'true',
    tracingExporterProtocol: 'http',
    tracingServiceName: 'Under Test',
    tracingServiceNamespace: '',
    tracingServiceInstanceId: 'instance-1',
    tracingSamplingRate: 1,
    ...settings,
  }
  const tracing = await openTracing(all, log, clock)
  if (tracing === undefined) throw new Error('tracing is disabled')
  return tracing
}

/** Sets environment variables, which the SDK reads; they are restored when the test ends. */
export function setEnvironment(t: TestContext, variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name]
    process.env[name] = value
    t.after(() => {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    })
  }
}

/** Decodes the spans of an ExportTraceServiceRequest. The field numbers are those of OTLP's .proto files. */
export function decodeExportRequest(bytes: Uint8Array): readonly ReceivedSpan[] {
  const spans: ReceivedSpan[] = []
  for (const resourceSpans of fieldsOf(bytes).messages(1)) {
    const resource = attributesOf(resourceSpans.messages(1).flatMap(message => message.messages(1)))
    for (const scopeSpans of resourceSpans.messages(2)) {
      for (const span of scopeSpans.messages(2)) spans.push(spanOf(span, resource))
    }
  }
  return spans
}

function spanOf(span: Fields, resource: ReceivedAttributes): ReceivedSpan {
  const [status] = span.messages(15)
  return {
    name: span.text(5),
    traceId: span.hex(1),
    spanId: span.hex(2),
    parentId: span.hex(4),
    attributes: attributesOf(span.messages(9)),
    resource,
    statusCode: Number(status?.number(3) ?? 0n),
    statusMessage: status?.text(2) ?? '',
    durationNs: span.number(8) - span.number(7),
  }
}

function attributesOf(pairs: readonly Fields[]): ReceivedAttributes {
  const attributes: Record<string, string | number> = {}
  for (const pair of pairs) {
    const [value] = pair.messages(2)
    if (value === undefined) throw new Error(`the attribute ${pair.text(1)} has no value`)
    attributes[pair.text(1)] = value.has(1) ? value.text(1) : Number(value.number(3))
  }
  return attributes
}

/** The fields of a protobuf message by their numbers. */
interface Fields {
  has(field: number): boolean
  text(field: number): string
  hex(field: number): string
  number(field: number): bigint
  messages(field: number): readonly Fields[]
}

function fieldsOf(bytes: Uint8Array): Fields {
  const values = new Map<number, (Uint8Array | bigint)[]>()
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag()
    values.set(field, [...(values.get(field) ?? []), readValue(reader, wireType)])
  }
  const bytesOf = (field: number) => (values.get(field) ?? []).filter(value => value instanceof Uint8Array)
  const first = (field: number) => bytesOf(field)[0] ?? new Uint8Array()
  return {
    has: field => values.has(field),
    text: field => new TextDecoder('utf-8', { fatal: true }).decode(first(field)),
    hex: field => Buffer.from(first(field)).toString('hex'),
    number: field => (values.get(field) ?? []).find(value => typeof value === 'bigint') ?? 0n,
    messages: field => bytesOf(field).map(fieldsOf),
  }
}

function readValue(reader: BinaryReader, wireType: WireType): Uint8Array | bigint {
  switch (wireType) {
    case WireType.LengthDelimited:
      return reader.bytes()
    case WireType.Varint:
      return BigInt(reader.int64())
    case WireType.Bit64:
      return BigInt(reader.fixed64())
    case WireType.Bit32:
      return BigInt(reader.fixed32())
    default:
      throw new Error(`no message of OTLP has the wire type ${wireType}`)
  }
}
