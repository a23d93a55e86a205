import { quote } from '@tollway/chassis/text.ts'
import { maxTextChars } from '@tollway/chassis/tracing/tracing.ts'
import type { DecisionRequest, DescriptorRequest } from '../limiter/decision.ts'

/**
 * Formats the request in protobuf's text format on one line, as the reference's attribute does. The result
 * has at most `maxTextChars` characters, and ends with `…` if truncated; the cost is bounded for a request of
 * a megabyte.
 */
export function requestText(request: DecisionRequest): string {
  let text = ''
  for (const part of partsOf(request)) {
    text += part
    if (text.length > maxTextChars) return `${text.slice(0, maxTextChars - 1)}…`
  }
  return text
}

function* partsOf({ domain, descriptors, hitsAddend }: DecisionRequest): Generator<string> {
  yield `domain:${quote(domain, maxTextChars)}`
  for (const descriptor of descriptors) {
    yield ' descriptors:{'
    yield* partsOfDescriptor(descriptor)
    yield '}'
  }
  if (hitsAddend !== 0) yield ` hits_addend:${hitsAddend}`
}

function* partsOfDescriptor({ entries, limit, hitsAddend }: DescriptorRequest): Generator<string> {
  let space = ''
  for (const { key, value } of entries) {
    yield `${space}entries:{key:${quote(key, maxTextChars)} value:${quote(value, maxTextChars)}}`
    space = ' '
  }
  if (limit !== undefined) {
    const unit = (limit.unit ?? 'unknown').toUpperCase()
    yield `${space}limit:{requests_per_unit:${limit.requestsPerUnit} unit:${unit}}`
    space = ' '
  }
  if (hitsAddend !== undefined) yield `${space}hits_addend:{value:${hitsAddend}}`
}
