import { randomUUID } from 'node:crypto'
import type { Span as SdkSpan, TextMapGetter, Tracer } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { type Clock, systemClock } from '../clock.ts'
import type { Log, LogFields } from '../log/log.ts'
import type { TracingSettings } from './tracing-settings.ts'

/**
 * Exports spans of calls by OTLP. Without tracing, a process has undefined instead, and never loads the SDK.
 */
export interface Tracing {
  /**
   * Starts the first span of a call. Its parent comes from the headers of the call: B3 in one header or
   * several, otherwise W3C Trace Context. The sampling decision of a parent is kept; without a parent the
   * sampling rate decides. For a call that is not sampled, returns undefined without computing the
   * attributes.
   */
  startSpan(name: string, readHeader: ReadHeader, attributes?: () => SpanAttributes): Span | undefined
  /**
   * Sends the ended spans, and accepts no more. Resolves when the collector has them, or after `timeoutMs`;
   * never rejects. A late export continues until the process ends.
   */
  stop(timeoutMs: number): Promise<void>
}

export interface Span {
  child(name: string, attributes?: SpanAttributes): Span
  /**
   * Ends the span. With an error, its status becomes ERROR with the error's message. Later calls have no
   * effect.
   */
  end(error?: unknown): void
  /** Runs `work`; the span ends with it, or with the promise that it returns. */
  run<T>(work: () => T): T
}

type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** Returns the value of a header, named in lower case; repeated values are joined by commas. */
export type ReadHeader = (name: string) => string | undefined

/**
 * The longest text in a span, in UTF-16 units. With the limit of the queue this bounds the memory of spans.
 */
export const maxTextChars = 1024

/** The shortest time between two warnings about the collector. */
const warningIntervalMs = 60_000

/** The name that distinguishes these spans from spans of libraries. */
const instrumentationScope = 'tollway'

/**
 * Loads the SDK and starts it; when tracing is disabled, resolves with undefined and loads nothing. The SDK
 * reads the endpoint and the sizes of batches from the standard variables OTEL_EXPORTER_OTLP_*, OTEL_BSP_*,
 * OTEL_RESOURCE_ATTRIBUTES and OTEL_(SPAN_)ATTRIBUTE_VALUE_LENGTH_LIMIT. An invalid variable is a warning, and
 * its default applies; an invalid endpoint is an error, since spans would reach an unintended collector.
 * While the collector cannot be reached, one warning a minute is logged and spans beyond the queue are
 * dropped.
 *
 * @throws Error that names the variable of the invalid endpoint
 */
export async function openTracing(
  settings: TracingSettings,
  log: Log,
  clock: Clock = systemClock,
): Promise<Tracing | undefined> {
  const { tracingExporterProtocol: protocol, tracingSamplingRate: samplingRate } = settings
  if (settings.tracingEnabled === 'false') return undefined
  for (const name of endpointNames) assertEndpoint(name, protocol)
  const sdk = await loadSdk()
  const { AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler } = sdk
  const { TraceIdRatioBasedSampler, TracerProvider } = sdk
  const warnings = new Warnings(log, clock)
  listenToSdk(sdk, warnings)

  const exporter = countLosses(sdk, await createExporter(protocol), warnings)
  // At the ratio 1, the sampler by ratio would drop one of 2^32 calls.
  const root = samplingRate === 1 ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(samplingRate)
  const provider = new TracerProvider({
    resource: createResource(sdk, settings),
    sampler: new ParentBasedSampler({ root }),
    spanProcessors: [new BatchSpanProcessor({ exporter, ...queueLimits(sdk) })],
    spanLimits: { attributeValueLengthLimit: textLimit(sdk) },
  })
  const tracer = provider.getTracer(instrumentationScope)
  const parents = createPropagator(sdk)
  return {
    startSpan(name, readHeader, attributes) {
      const parent = parents.extract(sdk.ROOT_CONTEXT, readHeader, headerGetter)
      const started = tracer.startSpan(name, {}, parent)
      if (!started.isRecording()) return undefined
      if (attributes !== undefined) started.setAttributes(withShortTexts(attributes()))
      return createSpan(sdk, tracer, started)
    },
    async stop(timeoutMs) {
      const inTime = await settlesWithin(provider.shutdown(), timeoutMs)
      if (!inTime) warnings.warn('export last spans failed', { reason: `not done after ${timeoutMs} ms` })
    },
  }
}

const endpointNames = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT']

/** The error does not quote the value, which may contain a password. */
function assertEndpoint(name: string, protocol: 'http' | 'grpc'): void {
  const text = process.env[name]?.trim() ?? ''
  // The gRPC exporter accepts an address without a scheme, too.
  const url = protocol === 'http' || /^\w+:\/\//.test(text) ? text : `https://${text}`
  if (text === '' || /^https?:$/.test(URL.parse(url)?.protocol ?? '')) return
  throw new Error(`${name}: the value is not allowed: a URL such as ${exampleEndpoints[protocol]}`)
}

const exampleEndpoints = {
  http: 'http://collector.internal:4318',
  grpc: 'http://collector.internal:4317',
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>

/** The SDK's bundle for Node also loads metrics, logs and their exporters. */
async function loadSdk() {
  const [api, core, trace, resources, b3] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/core'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/propagator-b3'),
  ])
  return { ...api, ...core, ...trace, ...resources, ...b3 }
}

async function createExporter(protocol: 'http' | 'grpc'): Promise<SpanExporter> {
  if (protocol === 'grpc') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc')
    return new OTLPTraceExporter()
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter()
}

/** OTEL_RESOURCE_ATTRIBUTES can add attributes, but does not override the attributes of the settings. */
function createResource(sdk: Sdk, settings: TracingSettings) {
  const { tracingServiceName, tracingServiceNamespace, tracingServiceInstanceId } = settings
  const fromEnvironment = sdk.detectResources({ detectors: [sdk.resourceAttributesEnvDetector] })
  return sdk
    .defaultResource()
    .merge(fromEnvironment)
    .merge(
      sdk.resourceFromAttributes({
        'service.name': tracingServiceName,
        ...(tracingServiceNamespace !== '' && { 'service.namespace': tracingServiceNamespace }),
        'service.instance.id': tracingServiceInstanceId || randomUUID(),
      }),
    )
}

/** The limits in OTEL_BSP_*, with the defaults of the OpenTelemetry specification. */
function queueLimits({ getNumberFromEnv }: Sdk) {
  const read = (name: string, fallback: number) => {
    const value = getNumberFromEnv(`OTEL_BSP_${name}`)
    return value !== undefined && value > 0 ? value : fallback
  }
  return {
    maxQueueSize: read('MAX_QUEUE_SIZE', 2048),
    maxExportBatchSize: read('MAX_EXPORT_BATCH_SIZE', 512),
    scheduledDelayMillis: read('SCHEDULE_DELAY', 5000),
    exportTimeoutMillis: read('EXPORT_TIMEOUT', 30_000),
  }
}

function textLimit({ getNumberFromEnv }: Sdk): number {
  const asked =
    getNumberFromEnv('OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT') ??
    getNumberFromEnv('OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT')
  return asked !== undefined && asked > 0 ? Math.min(asked, maxTextChars) : maxTextChars
}

/**
 * Creates a propagator. A later format replaces the parent that an earlier one found: this is Envoy's order,
 * so that both give a call the same parent.
 */
function createPropagator(sdk: Sdk) {
  const { B3Propagator, CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } = sdk
  return new CompositePropagator({
    propagators: [new W3CTraceContextPropagator(), new B3Propagator(), new W3CBaggagePropagator()],
  })
}

const headerGetter: TextMapGetter<ReadHeader> = {
  get: (readHeader, name) => readHeader(name),
  keys: () => [],
}

function createSpan(sdk: Sdk, tracer: Tracer, started: SdkSpan): Span {
  function end(error?: unknown): void {
    if (!started.isRecording()) return
    if (error !== undefined) {
      const message = shortText(error instanceof Error ? error.message : String(error))
      started.setStatus({ code: sdk.SpanStatusCode.ERROR, message })
    }
    started.end()
  }
  return {
    child(name, attributes = {}) {
      const parent = sdk.trace.setSpan(sdk.ROOT_CONTEXT, started)
      const child = tracer.startSpan(name, { attributes: withShortTexts(attributes) }, parent)
      return createSpan(sdk, tracer, child)
    },
    end,
    run(work) {
      try {
        const result = work()
        if (result instanceof Promise) result.then(() => end(), failWith)
        else end()
        return result
      } catch (error) {
        failWith(error)
        throw error
      }
    },
  }

  /**
   * Ends the span as failed: `end` takes undefined as success, but a rejection with undefined is a failure.
   */
  function failWith(error: unknown): void {
    end(error ?? 'failed')
  }
}

function withShortTexts(attributes: SpanAttributes): SpanAttributes {
  const short: Record<string, string | number | boolean> = {}
  for (const [name, value] of Object.entries(attributes)) {
    short[name] = typeof value === 'string' ? shortText(value) : value
  }
  return short
}

/**
 * Truncates a text, and replaces unpaired surrogates: because of one, a collector would reject the whole
 * batch.
 */
function shortText(text: string): string {
  return text.slice(0, maxTextChars).toWellFormed()
}

class Warnings {
  readonly #log: Log
  readonly #clock: Clock
  #quietUntilMs = Number.NEGATIVE_INFINITY
  #lostSpans = 0

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  warn(message: string, fields: LogFields): void {
    if (this.#mayWarn()) this.#log.warn(message, fields)
  }

  /**
   * Adds to the number of lost spans in the next warning. The number starts at 0 again after each warning.
   */
  onLost(spans: number, reason: string): void {
    this.#lostSpans += spans
    if (!this.#mayWarn()) return
    this.#log.warn('export spans failed', { lostSpans: this.#lostSpans, reason })
    this.#lostSpans = 0
  }

  #mayWarn(): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs < this.#quietUntilMs) return false
    this.#quietUntilMs = nowMs + warningIntervalMs
    return true
  }
}

/**
 * Logs the SDK's warnings: invalid variables, spans beyond the queue, partial rejections. The SDK's errors
 * only repeat the failed exports that `countLosses` reports.
 */
function listenToSdk({ diag, DiagLogLevel }: Sdk, warnings: Warnings): void {
  const nothing = () => {}
  const warn = (...texts: readonly unknown[]) => {
    const text = texts.filter(part => typeof part === 'string').join(' ')
    warnings.warn('report OpenTelemetry problem', { reason: withoutCredentials(shortText(text)) })
  }
  const logger = { error: nothing, warn, info: nothing, debug: nothing, verbose: nothing }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
}

function withoutCredentials(text: string): string {
  return text.replace(/:\/\/[^@/\s]*@/g, '://***@')
}

function countLosses({ ExportResultCode }: Sdk, exporter: SpanExporter, warnings: Warnings): SpanExporter {
  return {
    export(spans, done) {
      exporter.export(spans, result => {
        if (result.code !== ExportResultCode.SUCCESS) {
          const reason = withoutCredentials(shortText(result.error?.message || 'no reason given'))
          warnings.onLost(spans.length, reason)
        }
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

/** Resolves with whether the work ends in time. Never rejects. */
async function settlesWithin(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const { promise: tooLate, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), timeoutMs)
  const ended = () => true
  try {
    return await Promise.race([work.then(ended, ended), tooLate])
  } finally {
    clearTimeout(timer)
  }
}
