/** The currencies of ISO 4217 that people pay with, by the number of digits of their minor unit. */
const byExponent: readonly (readonly [exponent: number, codes: string])[] = [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'],
  [
    2,
    `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY
     COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
     IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR
     MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG
     SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES
     WST XCD XCG YER ZAR ZMW ZWG`,
  ],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
]

const exponents: ReadonlyMap<string, number> = new Map(
  byExponent.flatMap(([exponent, codes]) => codes.split(/\s+/).map(code => [code, exponent] as const)),
)

export const currencyCodes: readonly string[] = [...exponents.keys()].sort()

export function isCurrency(code: string): boolean {
  return exponents.has(code)
}

/** Returns the digits of the minor unit: 2 for DKK, 0 for JPY, 3 for KWD. Throws for an unknown currency. */
export function exponentOf(currency: string): number {
  const exponent = exponents.get(currency)
  if (exponent === undefined)
    throw new RangeError(`${JSON.stringify(currency)} is not a currency of ISO 4217`)
  return exponent
}
