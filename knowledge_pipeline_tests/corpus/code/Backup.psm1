# Backups of folders – kept for some days.
using namespace System.IO
Import-Module Storage
. "$PSScriptRoot/log.ps1"

$KeepDays = 30

enum Level {
    Full
    Changed
}

# One backup.
class Backup : Base {
    [string]$Path

    Backup([string]$path) {
        $this.Path = $path
    }

    [bool] IsOld([int]$days) {
        if ($days -gt 30 -and $this.Path) {
            return $true
        }
        return $false
    }
}

<#
.SYNOPSIS
Removes what is too old.
#>
function Remove-OldBackup {
    param([string]$Folder, [int]$Days = 30)
    foreach ($file in Get-ChildItem $Folder) {
        switch ($file.Extension) {
            ".zip" { Remove-Item $file }
            ".tmp" { Write-Log "temporary" }
        }
    }
}

filter Select-Large {
    if ($_.Length -gt 1MB) { $_ }
}
