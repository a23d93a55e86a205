import type { Span as SdkSpan, TextMapGetter, Tracer } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { type Clock, systemClock } from '../clock.ts'
import type { Log, LogFields } from '../log/log.ts'

/**
 * Spans of calls, exported by OTLP to a collector. The SDK is loaded only when tracing starts, so that a
 * process without tracing does not pay for it; the caller has undefined then.
 */
export interface Tracing {
  /**
   * Starts the first span of a call. The call's headers determine its parent: W3C Trace Context, or B3 in one
   * header or several; B3 takes precedence. A parent's sampling decision is kept; without a parent the
   * sampling rate decides. Returns undefined for an unsampled call, without computing the attributes.
   */
  startSpan(name: string, readHeader: ReadHeader, attributes?: () => SpanAttributes): Span | undefined
  /**
   * Sends the ended spans, and accepts no more. Resolves when the collector has them, or after `timeoutMs`;
   * never rejects. A longer export ends with the process.
   */
  stop(timeoutMs: number): Promise<void>
}

export interface Span {
  child(name: string, attributes?: SpanAttributes): Span
  /** Ends the span; an error sets its status. Only the first call has an effect. */
  end(error?: unknown): void
  /** Runs `work`, returns its result, and ends the span with it: at once, or when its promise settles. */
  run<T>(work: () => T): T
}

/** Texts are truncated to `maxTextChars`. */
type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/**
 * Returns the value of a header of the call, by its name in lower case; the values of repeated headers are
 * joined by commas.
 */
export type ReadHeader = (name: string) => string | undefined

export interface TracingOptions {
  /** OTLP as protobuf over HTTP, or over gRPC. */
  readonly exporterProtocol: 'http' | 'grpc'
  readonly serviceName: string
  /** `''` for none. */
  readonly serviceNamespace: string
  readonly serviceInstanceId: string
  /** The share of calls without a parent that are traced, 0 to 1. */
  readonly samplingRate: number
  readonly log: Log
  readonly clock?: Clock
}

/** Longer texts are truncated, in UTF-16 units. With the queue's limit this bounds memory. */
export const maxTextChars = 1024

/** The interval of warnings about the collector. */
const warningIntervalMs = 60_000

/** The instrumentation scope, which distinguishes these spans from those of libraries. */
const instrumentationScope = 'tollway'

/**
 * Loads the SDK and starts it. The standard variables, which the SDK reads from the process's environment,
 * define the endpoint and the batches: OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES and
 * OTEL_(SPAN_)ATTRIBUTE_VALUE_LENGTH_LIMIT. An invalid variable is logged and its default applies; but an
 * invalid endpoint is an error, since spans would be sent to an unintended collector. A collector that cannot
 * be reached is logged once a minute and is otherwise harmless: spans beyond the queue are dropped.
 *
 * @throws Error that names the variable of the endpoint
 */
export async function startTracing(options: TracingOptions): Promise<Tracing> {
  const { log, clock = systemClock, samplingRate } = options
  for (const name of endpointNames) assertEndpoint(name, options.exporterProtocol)
  const sdk = await loadSdk()
  const { AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler } = sdk
  const { TraceIdRatioBasedSampler, TracerProvider } = sdk
  const warnings = new Warnings(log, clock)
  listenToSdk(sdk, warnings)

  const exporter = countLosses(sdk, await createExporter(options.exporterProtocol), warnings)
  // The sampler by ratio drops one of 2^32 calls even at the ratio 1, which means all calls here.
  const root = samplingRate === 1 ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(samplingRate)
  const provider = new TracerProvider({
    resource: createResource(sdk, options),
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

/** The value is not quoted, since it may contain a password. */
function assertEndpoint(name: string, protocol: 'http' | 'grpc'): void {
  const text = process.env[name]?.trim() ?? ''
  // The exporter of gRPC accepts an address without a scheme too.
  const url = protocol === 'http' || /^\w+:\/\//.test(text) ? text : `https://${text}`
  if (text === '' || /^https?:$/.test(URL.parse(url)?.protocol ?? '')) return
  throw new Error(`${name}: the value is not allowed: a URL such as ${exampleEndpoints[protocol]}`)
}

const exampleEndpoints = {
  http: 'http://collector.internal:4318',
  grpc: 'http://collector.internal:4317',
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>

/** Avoids the SDK's bundle for Node, which also loads metrics, logs and their exporters. */
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

/** OTEL_RESOURCE_ATTRIBUTES adds attributes and does not override those set here. No resource is detected. */
function createResource(sdk: Sdk, options: TracingOptions) {
  const { serviceName, serviceNamespace, serviceInstanceId } = options
  const fromEnvironment = sdk.detectResources({ detectors: [sdk.resourceAttributesEnvDetector] })
  return sdk
    .defaultResource()
    .merge(fromEnvironment)
    .merge(
      sdk.resourceFromAttributes({
        'service.name': serviceName,
        ...(serviceNamespace === '' ? {} : { 'service.namespace': serviceNamespace }),
        'service.instance.id': serviceInstanceId,
      }),
    )
}

/** The batch span processor's variables and defaults, from the OpenTelemetry specification. */
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
 * The formats have Envoy's order, so that both sides of a call have the same parent: a later format replaces
 * an earlier one.
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

  /** A rejection with undefined is a failure too. */
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

/** A collector would reject the whole batch for an unpaired surrogate, sent or left by the truncation. */
function shortText(text: string): string {
  return text.slice(0, maxTextChars).toWellFormed()
}

/** Logs at most one warning a minute. */
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

  /** Counts lost spans, which the next warning about them includes. */
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
 * The SDK reports invalid variables, spans beyond the queue, and partial rejections by a collector.
 * `countLosses` reports failed exports, which the SDK only repeats as errors.
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

/** Removes the user and the password from a collector's address. */
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

/** Returns whether the work ended, with success or failure, within the time. */
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
