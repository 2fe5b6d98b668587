interface SparkProps {
  values: (number | null)[]
  label: string
  width?: number
  height?: number
}

/** A line of the last values, without axes: its label says in words what it shows. */
export function Spark({ values, label, width = 110, height = 26 }: SparkProps) {
  const known = values.filter((one): one is number => one !== null)
  if (known.length < 2) return <span className="quiet">too few</span>
  const [low, high] = [Math.min(...known), Math.max(...known)]
  const x = (at: number) => 3 + (at / (values.length - 1)) * (width - 6)
  const y = (value: number) => (high === low ? height / 2 : height - 3 - ((value - low) / (high - low)) * (height - 6))
  const path = values.flatMap((one, at) => (one === null ? [] : [`${x(at).toFixed(1)},${y(one).toFixed(1)}`])).join(' ')
  const last = values.findLastIndex((one) => one !== null)
  return (
    <svg role="img" aria-label={label} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      <title>{label}</title>
      <polyline points={path} fill="none" stroke="var(--accent)" strokeWidth="1.5" />
      <circle cx={x(last)} cy={y(values[last] ?? 0)} r="2.5" fill="var(--accent)" />
    </svg>
  )
}
