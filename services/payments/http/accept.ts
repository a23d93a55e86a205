const maxRanges = 50

/** Whether an Accept header (RFC 9110, section 12.5.1) takes JSON. Without one, anything is taken. */
export function acceptsJson(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  return accept
    .split(',', maxRanges)
    .map(range => range.split(';').map(part => part.trim().toLowerCase()))
    .some(([type = '', ...parameters]) => isJsonRange(type) && !parameters.some(isZeroWeight))
}

function isJsonRange(type: string): boolean {
  return type === 'application/json' || type === 'application/*' || type === '*/*'
}

function isZeroWeight(parameter: string): boolean {
  return /^q=0(\.0{0,3})?$/.test(parameter)
}
