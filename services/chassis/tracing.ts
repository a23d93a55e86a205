import type { Span as SdkSpan, TextMapGetter, Tracer } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { type Clock, systemClock } from './clock.ts'
import type { Log } from './log.ts'

/**
 * Spans of calls, exported by OTLP to a collector. The SDK is loaded when tracing is started and not before,
 * so that a process without tracing never pays for it; a caller then holds undefined.
 */
export interface Tracing {
  /**
   * Begins the first span of a call, whose parent is told by the call's headers: W3C Trace Context, or B3 in
   * one header or several; B3 counts where there are both. A parent's sampling decision is kept; without a
   * parent it is drawn by the sampling rate. Answers undefined for a call that is not sampled, and then
   * never asks for the attributes.
   */
  startSpan(name: string, readHeader: ReadHeader, attributes?: () => SpanAttributes): Span | undefined
  /**
   * Sends the spans that have ended, and takes no more. Resolves when the collector has them, or after
   * `timeoutMs`; never rejects. An export that takes longer ends with the process.
   */
  stop(timeoutMs: number): Promise<void>
}

export interface Span {
  child(name: string, attributes?: SpanAttributes): Span
  /** With an error the span's status says so. Only the first call counts. */
  end(error?: unknown): void
  /** Answers what `work` does, and ends with it: at once, or when its promise settles. */
  run<T>(work: () => T): T
}

/** Texts are cut to `maxTextChars`. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/**
 * The value of a header of the call, under its name in lower case; the values of one that came several times
 * are joined by commas.
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

/** Longer texts are cut, in UTF-16 units. With the queue's limit this bounds memory. */
export const maxTextChars = 1024

/** The collector's absence is told of again after so long. */
const warningIntervalMs = 60_000

/** Under which the spans of our processes are told from those of libraries. */
const instrumentationScope = 'tollway'

/**
 * Loads the SDK and starts it. Where spans go, and how they are collected, is told by the standard variables,
 * which the SDK reads from the process's environment: OTEL_EXPORTER_OTLP_*, OTEL_BSP_*,
 * OTEL_RESOURCE_ATTRIBUTES and OTEL_(SPAN_)ATTRIBUTE_VALUE_LENGTH_LIMIT. A wrong one is warned of, and its
 * default holds; but an endpoint that is none is refused, for spans would go to a collector that nobody named.
 * A collector that cannot be reached is told of once a minute and otherwise harmless: spans beyond the queue
 * are dropped.
 *
 * @throws Error that names the variable of the endpoint.
 */
export async function startTracing(options: TracingOptions): Promise<Tracing> {
  const { log, clock = systemClock, samplingRate } = options
  for (const name of endpointNames) assertEndpoint(name, options.exporterProtocol)
  const sdk = await loadSdk()
  const { AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler } = sdk
  const { TraceIdRatioBasedSampler, TracerProvider } = sdk
  const warnings = createWarnings(log, clock)
  listenToSdk(sdk, warnings)

  const exporter = countLosses(sdk, await createExporter(options.exporterProtocol), warnings)
  // The sampler by ratio leaves out one of 2^32 even at the ratio 1, which stands for always.
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
      if (!inTime) warnings.warn('the trace collector did not take the last spans in time', { timeoutMs })
    },
  }
}

const endpointNames = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT']

/** The value is not quoted: it may hold a password. */
function assertEndpoint(name: string, protocol: 'http' | 'grpc'): void {
  const text = process.env[name]?.trim() ?? ''
  // The exporter of gRPC takes an address without a scheme, too.
  const url = protocol === 'http' || /^\w+:\/\//.test(text) ? text : `https://${text}`
  if (text === '' || /^https?:$/.test(URL.parse(url)?.protocol ?? '')) return
  throw new Error(`${name}: the value is not allowed: a URL such as ${exampleEndpoints[protocol]}`)
}

const exampleEndpoints = {
  http: 'http://collector.internal:4318',
  grpc: 'http://collector.internal:4317',
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>

/** Without the SDK's bundle for Node, which brings metrics, logs and their exporters too. */
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

/** OTEL_RESOURCE_ATTRIBUTES adds to what is set here and does not change it. Nothing is looked up. */
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

/** The batch span processor's variables and defaults, by the OpenTelemetry specification. */
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

/** In Envoy's order, so that both sides of a call see the same parent: a later format replaces an earlier. */
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

  /** Also a rejection with undefined is a failure. */
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

/** Half a surrogate pair, sent or left by the cut, would make a collector refuse the whole batch. */
function shortText(text: string): string {
  return text.slice(0, maxTextChars).toWellFormed()
}

interface Warnings {
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  /** Told of with the next warning of losses, so that the sum is right. */
  lost(spans: number, reason: string): void
}

/** One a minute at most, whatever goes wrong how often. */
function createWarnings(log: Log, clock: Clock): Warnings {
  let quietUntilMs = Number.NEGATIVE_INFINITY
  let lostSpans = 0
  const mayWarn = () => {
    const nowMs = clock.monotonicMs()
    if (nowMs < quietUntilMs) return false
    quietUntilMs = nowMs + warningIntervalMs
    return true
  }
  return {
    warn(message, fields = {}) {
      if (mayWarn()) log.warn(message, fields)
    },
    lost(spans, reason) {
      lostSpans += spans
      if (!mayWarn()) return
      log.warn('the trace collector did not take spans; they are lost', { spans: lostSpans, reason })
      lostSpans = 0
    },
  }
}

/**
 * The SDK tells of wrong variables, of spans beyond the queue and of those that a collector took in part. A
 * failed export is told of by `countLosses`, and what the SDK calls errors is only that once more.
 */
function listenToSdk({ diag, DiagLogLevel }: Sdk, warnings: Warnings): void {
  const nothing = () => {}
  const warn = (...texts: readonly unknown[]) => {
    const text = texts.filter(part => typeof part === 'string').join(' ')
    warnings.warn('tracing', { problem: withoutCredentials(shortText(text)) })
  }
  const logger = { error: nothing, warn, info: nothing, debug: nothing, verbose: nothing }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
}

/** A collector's address may name a user and a password. */
function withoutCredentials(text: string): string {
  return text.replace(/:\/\/[^@/\s]*@/g, '://***@')
}

function countLosses({ ExportResultCode }: Sdk, exporter: SpanExporter, warnings: Warnings): SpanExporter {
  return {
    export(spans, done) {
      exporter.export(spans, result => {
        if (result.code !== ExportResultCode.SUCCESS) {
          const reason = withoutCredentials(shortText(result.error?.message || 'no reason given'))
          warnings.lost(spans.length, reason)
        }
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

/** Whether the work ended, well or badly, before the time was over. */
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
