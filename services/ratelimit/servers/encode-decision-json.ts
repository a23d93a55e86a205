import { Buffer } from 'node:buffer'
import type { DescriptorDecision, RateLimitDecision } from '../limiter/decision.ts'
import { type Unit, units } from '../rules/units.ts'

const okText = '"OK"'
const overText = '"OVER_LIMIT"'

const unitTexts = Object.fromEntries(units.map(unit => [unit, `"${unit.toUpperCase()}"`])) as Readonly<
  Record<Unit, string>
>

/**
 * Encodes an envoy.service.ratelimit.v3.RateLimitResponse as proto3 JSON: zero values are left out. Fields
 * are in the order of declaration, as Go writes them; the generated encoder orders them by number, which puts
 * a limit's name last.
 */
export function encodeDecisionJson({ over, statuses, headers, body, metadata }: RateLimitDecision): string {
  let text = `{"overallCode":${over ? overText : okText},"statuses":[`
  let separator = ''
  for (const status of statuses) {
    text += separator + statusText(status)
    separator = ','
  }
  text += ']'
  if (headers !== undefined && headers.length > 0)
    text += `,"responseHeadersToAdd":${JSON.stringify(headers)}`
  if (body !== undefined) text += `,"rawBody":"${Buffer.from(body).toString('base64')}"`
  if (metadata !== undefined) text += `,"dynamicMetadata":${JSON.stringify(metadata)}`
  return `${text}}`
}

function statusText({ over, remaining, limit }: DescriptorDecision): string {
  const left = remaining === 0 ? '' : `,"limitRemaining":${remaining}`
  const code = `{"code":${over ? overText : okText}`
  if (limit === undefined) return `${code}${left}}`
  const { name, requestsPerUnit, unit, resetSeconds } = limit
  const nameText = name === '' ? '' : `"name":${JSON.stringify(name)},`
  const requests = requestsPerUnit === 0 ? '' : `"requestsPerUnit":${requestsPerUnit},`
  // Only a limit of at least 1 has no unit, so one of the last two is there.
  const limitText = unit === undefined ? requests.slice(0, -1) : `${requests}"unit":${unitTexts[unit]}`
  const current = `,"currentLimit":{${nameText}${limitText}}`
  const reset = resetSeconds === undefined ? '' : `,"durationUntilReset":"${resetSeconds}s"`
  return `${code}${current}${left}${reset}}`
}
