import React, { useState } from 'react';
import { Button } from './Button';

interface PanelProps {
  title: string;
  onClose?: () => void;
}

/** A panel that opens and closes. */
export function Panel({ title, onClose }: PanelProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const toggle = () => {
    setOpen(!open);
    if (open && onClose) {
      onClose();
    }
  };
  return (
    <section>
      <h2>{title}</h2>
      <Button onClick={toggle}>{open ? 'Close' : 'Öffnen'}</Button>
    </section>
  );
}

const Row: React.FC<{ cells: string[] }> = ({ cells }) => (
  <tr>
    {cells.map((cell) => (
      <td key={cell}>{cell}</td>
    ))}
  </tr>
);

export default Row;
